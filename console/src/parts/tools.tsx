/** Ranked tools as a picture: what every leg gave to the score, and the probability. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Hit } from "../api/types";
import { walk } from "../state/arrows";
import type { Draft } from "../state/draft";
import { link } from "../state/place";
import type { Signal } from "../state/signal";
import { firstLine, percent, score } from "../words/figures";
import type { Row } from "../words/rows";
import { LEG_WORDS, legend, type Leg, type Share, shares } from "../words/shares";
import { Judge } from "./judge";
import { Untrusted } from "./untrusted";

interface Props {
  rows: readonly Row[];
  draft: Signal<Draft>;
}

export function ToolsPicture({ rows, draft }: Props): VNode {
  const parts = rows.map((row) => shares(row.hit));
  const most = Math.max(1e-9, ...parts.map(positive));
  return (
    <div class="tools">
      <Legend legs={legend(parts)} />
      <ol class="hits" onKeyDown={walk}>
        {rows.map((row, place) => (
          <ToolRow
            key={row.hit.id}
            row={row}
            parts={parts[place] ?? []}
            most={most}
            draft={draft}
          />
        ))}
      </ol>
    </div>
  );
}

function Legend({ legs }: { legs: Leg[] }): VNode {
  return (
    <div class="hits-head">
      <span class="col-tool label">tool</span>
      <span class="col-score">
        <span class="label">score, by what gave it</span>
        <span class="legend">
          {legs.map((leg) => (
            <span key={leg} title={LEG_WORDS[leg].about}>
              <i class={`swatch leg-${leg}`} aria-hidden="true" />
              {LEG_WORDS[leg].name}
            </span>
          ))}
        </span>
      </span>
      <span class="col-sure">
        <span class="label">probability that it is right</span>
      </span>
    </div>
  );
}

interface RowProps {
  row: Row;
  parts: Share[];
  most: number;
  draft: Signal<Draft>;
}

function ToolRow({ row, parts, most, draft }: RowProps): VNode {
  const [open, setOpen] = useState(false);
  const { hit, given, rule } = row;
  return (
    <li class={given ? "hit given" : "hit"} data-tool={hit.id}>
      <button
        type="button"
        class="hit-name col-tool"
        data-stop
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <span class="hit-title">
          <span class="rank">{row.rank ?? "–"}</span>
          <b>
            <Untrusted text={hit.name} />
          </b>
          {hit.server && (
            <small class="server">
              <Untrusted text={hit.server} />
            </small>
          )}
          <Tag given={given} rule={rule} />
          <Linked hit={hit} />
        </span>
        <span class="hit-about">
          <Untrusted text={firstLine(hit.description)} />
        </span>
      </button>
      <ScoreBar score={hit.score} parts={parts} most={most} rule={rule} />
      <SureBar probability={hit.probability} />
      <Judge draft={draft} what="tools" id={hit.id} name={hit.id} />
      {open && <Details row={row} parts={parts} />}
    </li>
  );
}

function Tag({ given, rule }: { given: boolean; rule: string }): VNode | null {
  if (rule) return <span class="tag rule">{rule}</span>;
  return given ? <span class="tag given">given</span> : null;
}

/** For whom a tool is there, and what to use in its place. */
function Linked({ hit }: { hit: Hit }): VNode {
  const { needed_for: users = [], goes_with: mates = [] } = hit;
  return (
    <>
      {users.length > 0 && (
        <span class="tag rule">
          needed for <Untrusted text={users.join(", ")} />
        </span>
      )}
      {mates.length > 0 && (
        <span class="tag rule">
          goes with <Untrusted text={mates.join(", ")} />
        </span>
      )}
      {hit.replaced_by && (
        <span class="tag unmatched">
          deprecated, use <Untrusted text={hit.replaced_by} />
        </span>
      )}
    </>
  );
}

function ScoreBar(props: { score: number; parts: Share[]; most: number; rule: string }): VNode {
  const { score: value, parts, most, rule } = props;
  if (parts.length === 0) {
    return <span class="col-score bar-empty">{rule ? "came by rule, not by score" : "0"}</span>;
  }
  const words = parts.map((share) => `${LEG_WORDS[share.leg].name} ${score(share.value)}`);
  const label = `score ${score(value)}: ${words.join(", ")}`;
  const total = positive(parts);
  let from = 0;
  return (
    <span class="col-score bar-row">
      <span class="bar" role="img" aria-label={label} title={label}>
        {parts
          .filter((share) => share.value > 0)
          .map((share) => {
            const left = from;
            from += share.value;
            return <Segment key={share.leg} leg={share.leg} from={left} to={from} most={most} />;
          })}
        {total > value + 1e-4 && <Segment leg="taken" from={value} to={total} most={most} />}
      </span>
      <span class="figure">{score(value)}</span>
    </span>
  );
}

function Segment(props: { leg: Leg; from: number; to: number; most: number }): VNode {
  const { leg, from, to, most } = props;
  const place = { left: `${(100 * from) / most}%`, width: `${(100 * (to - from)) / most}%` };
  return <i class={`segment leg-${leg}`} style={place} />;
}

function SureBar({ probability }: { probability: number | null }): VNode {
  const known = probability !== null;
  const label = known ? `probability ${percent(probability)}` : "no probability";
  return (
    <span class="col-sure bar-row">
      <span class="bar sure" role="img" aria-label={label}>
        {known && <i class="segment" style={{ left: 0, width: `${100 * probability}%` }} />}
      </span>
      <span class="figure">{percent(probability)}</span>
    </span>
  );
}

function Details({ row, parts }: { row: Row; parts: Share[] }): VNode {
  const { hit } = row;
  const legs = Object.entries(hit.legs ?? {});
  return (
    <div class="hit-details">
      <p class="long">
        <Untrusted text={hit.description} />
      </p>
      {legs.length > 0 && (
        <table class="small">
          <caption>What each leg said, and what it gave to the score</caption>
          <thead>
            <tr>
              <th scope="col">leg</th>
              <th scope="col">said</th>
              <th scope="col">gave</th>
            </tr>
          </thead>
          <tbody>
            {legs.map(([leg, value]) => (
              <LegLine key={leg} leg={leg} said={value} parts={parts} />
            ))}
          </tbody>
        </table>
      )}
      <p>
        <a href={link("registry", { tool: hit.id })}>Everything about this tool</a>
      </p>
    </div>
  );
}

function LegLine({ leg, said, parts }: { leg: string; said: number; parts: Share[] }): VNode {
  const about = leg in LEG_WORDS ? LEG_WORDS[leg as Leg].about : "";
  const gave = parts.find((share) => share.leg === leg)?.value;
  return (
    <tr>
      <th scope="row">
        <code>{leg}</code> {about && <small>{about}</small>}
      </th>
      <td class="number">{said.toFixed(3)}</td>
      <td class="number">{gave === undefined ? "–" : gave.toFixed(3)}</td>
    </tr>
  );
}

function positive(parts: readonly Share[]): number {
  return parts.reduce((total, share) => total + Math.max(0, share.value), 0);
}
