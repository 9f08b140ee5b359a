/** Finds a tool by a few words, and hands its id on: a combobox with a list below. */

import type { VNode } from "preact";
import { useId, useState } from "preact/hooks";
import { call } from "../api/call";
import type { Found, Hit } from "../api/types";
import { useAnswer, useSettled } from "../state/answers";
import { firstLine } from "../words/figures";
import { Untrusted } from "./untrusted";

interface Props {
  label: string;
  pick: (id: string) => void;
}

export function ToolPicker({ label, pick }: Props): VNode {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const list = useId();
  const { hits, note } = useFound(text.trim());
  const choose = (hit: Hit | undefined): void => {
    if (hit === undefined) return;
    pick(hit.id);
    setText("");
    setActive(0);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && hits.length > 0) {
      setActive((active + step + hits.length) % hits.length);
    } else if (event.key === "Enter") choose(hits[active]);
    else if (event.key === "Escape" && text) setText("");
    else return;
    event.preventDefault();
  };
  return (
    <div class="picker">
      <label class="field">
        {label}
        <input
          type="search"
          role="combobox"
          list={undefined}
          aria-expanded={hits.length > 0}
          aria-controls={list}
          aria-autocomplete="list"
          aria-activedescendant={hits.length > 0 ? `${list}-${active}` : undefined}
          autocomplete="off"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setActive(0);
          }}
          onKeyDown={press}
        />
      </label>
      {note && <p class="note">{note}</p>}
      <Options id={list} hits={hits} active={active} choose={choose} />
    </div>
  );
}

/** The tools that a few words find, or a note why there are none. */
function useFound(text: string): { hits: readonly Hit[]; note: string } {
  const words = useSettled(text, 150);
  const body = { query: words, k: 6, gate: false };
  const ask = words
    ? (signal: AbortSignal) => call<Found>("v1/tools/search", { method: "POST", body, signal })
    : null;
  const { value, trouble } = useAnswer(ask, [words]);
  const hits = text ? (value?.tools ?? []) : [];
  const nothing = value !== undefined && text === words && text !== "" && hits.length === 0;
  return { hits, note: trouble?.message ?? (nothing ? "No tool has anything of this." : "") };
}

interface OptionsProps {
  id: string;
  hits: readonly Hit[];
  active: number;
  choose: (hit: Hit) => void;
}

function Options({ id, hits, active, choose }: OptionsProps): VNode {
  return (
    <ul id={id} role="listbox" aria-label="Tools found" hidden={hits.length === 0}>
      {hits.map((hit, place) => (
        <li
          key={hit.id}
          id={`${id}-${place}`}
          role="option"
          aria-selected={place === active}
          onMouseDown={(event) => {
            event.preventDefault();
            choose(hit);
          }}
        >
          <b>
            <Untrusted text={hit.id} />
          </b>{" "}
          <small>
            <Untrusted text={firstLine(hit.description)} />
          </small>
        </li>
      ))}
    </ul>
  );
}
