/** What was read in a turn: chips with their probabilities, and the entities in the text. */

import type { ComponentChildren, VNode } from "preact";
import type { Context, Entity } from "../api/types";
import { percent } from "../words/figures";
import { Untrusted } from "./untrusted";

type Told = Omit<Context, "entities" | "signals">;

interface ChipsProps {
  context: Told;
  degraded: readonly string[];
}

/** The labels, each with how likely it is right. */
export function ContextChips({ context, degraded }: ChipsProps): VNode {
  if (degraded.includes("context")) return <p class="note">Not read, for lack of time.</p>;
  const sure = context.confidences;
  const talk = context.smalltalk;
  return (
    <dl class="chips">
      <Chip name="intent" value={context.intent} sure={sure["intent"]} none="none fits" />
      <Chip name="domain" value={context.domain} sure={sure["domain"]} none="none fits" />
      <Chip name="urgency" value={context.urgency} sure={sure["urgency"]} />
      <Chip name="sensitivity" value={context.sensitivity} sure={sure["sensitivity"]} />
      <Chip name="language" value={context.language} none="too short to tell" />
      <Chip name="small talk" value={talk} sure={talk ? sure["smalltalk"] : undefined} none="no" />
      <Chip name="need" value={context.need} sure={sure["need"]} none="unclear" />
    </dl>
  );
}

interface ChipProps {
  name: string;
  value: string | null;
  sure?: number | undefined;
  none?: string;
}

function Chip({ name, value, sure, none = "–" }: ChipProps): VNode {
  return (
    <div class={value === null ? "chip absent" : "chip"}>
      <dt>{name}</dt>
      <dd>
        <span class="chip-value">{value === null ? none : <Untrusted text={value} />}</span>
        {sure !== undefined && <small>{percent(sure)}</small>}
        {sure !== undefined && (
          <span class="meter" aria-hidden="true">
            <span style={{ width: `${100 * sure}%` }} />
          </span>
        )}
      </dd>
    </div>
  );
}

interface MarkedProps {
  text: string;
  entities: readonly Entity[];
}

/** A turn's text in which the entities are marked. */
export function MarkedText({ text, entities }: MarkedProps): VNode {
  // Places are counted in characters, of which JavaScript makes two for some.
  const letters = Array.from(text);
  const slice = (from: number, to?: number): string => letters.slice(from, to).join("");
  const pieces: ComponentChildren[] = [];
  let from = 0;
  for (const entity of [...entities].sort((a, b) => a.start - b.start || b.end - a.end)) {
    if (entity.start < from) continue;
    pieces.push(<Untrusted text={slice(from, entity.start)} />);
    pieces.push(
      <mark class="entity">
        <Untrusted text={slice(entity.start, entity.end)} />
        <small>{entity.type}</small>
      </mark>,
    );
    from = entity.end;
  }
  pieces.push(<Untrusted text={slice(from)} />);
  return <p class="turn-text">{pieces}</p>;
}

/** Short words for people and logs. */
export function Signals({ signals }: { signals: readonly string[] }): VNode | null {
  if (signals.length === 0) return null;
  return (
    <p class="signals">
      <span class="label">signals</span>
      {signals.map((signal) => (
        <code key={signal}>
          <Untrusted text={signal} />
        </code>
      ))}
    </p>
  );
}
