/** What there is to narrow by, with counts; a choice stands in the address. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Counts } from "../api/types";
import { adjust, place } from "../state/place";
import { count } from "../words/figures";
import { Untrusted } from "./untrusted";

interface Props {
  title: string;
  name: string;
  counts: Counts;
  open?: boolean;
  /** In this order, not by how many there are. */
  order?: readonly string[];
  single?: boolean;
}

const SHOWN = 8;

export function FacetList({ title, name, counts, open, order, single }: Props): VNode | null {
  const [all, setAll] = useState(false);
  const chosen = place.value.params.getAll(name);
  const entries = Object.entries(counts).sort(
    order
      ? (a, b) => order.indexOf(a[0]) - order.indexOf(b[0])
      : (a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1),
  );
  if (entries.length === 0) return null;
  const shown = entries.filter(([value], rank) => all || rank < SHOWN || chosen.includes(value));
  const choose = (value: string): void => {
    const others = single ? [] : chosen.filter((each) => each !== value);
    const next = chosen.includes(value) ? chosen.filter((each) => each !== value) : [...others, value];
    adjust({ [name]: next, after: undefined });
  };
  return (
    <details class="facet" open={open === true || chosen.length > 0}>
      <summary>
        {title} <small>{count(entries.length)}</small>
      </summary>
      <ul>
        {shown.map(([value, n]) => (
          <li key={value}>
            <label>
              <input
                type="checkbox"
                checked={chosen.includes(value)}
                onChange={() => choose(value)}
              />
              <span class="facet-name">
                <Untrusted text={value} />
              </span>
              <span class="figure">{count(n)}</span>
            </label>
          </li>
        ))}
      </ul>
      {entries.length > SHOWN && (
        <button type="button" class="quiet" onClick={() => setAll(!all)} aria-expanded={all}>
          {all ? "Fewer" : `All ${count(entries.length)}`}
        </button>
      )}
    </details>
  );
}
