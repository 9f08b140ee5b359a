/** Two buttons that say of one thing whether it is right. */

import type { VNode } from "preact";
import { type Draft, mark } from "../state/draft";
import type { Signal } from "../state/signal";

interface Props {
  draft: Signal<Draft>;
  what: "tools" | "collections";
  id: string;
  name: string;
}

export function Judge({ draft, what, id, name }: Props): VNode {
  const said = draft.value[what][id];
  return (
    <span class="judge">
      <Verdict says={true} said={said} name={name} press={() => mark(draft, what, id, true)} />
      <Verdict says={false} said={said} name={name} press={() => mark(draft, what, id, false)} />
    </span>
  );
}

interface VerdictProps {
  says: boolean;
  said: boolean | undefined;
  name: string;
  press: () => void;
}

export function Verdict({ says, said, name, press }: VerdictProps): VNode {
  const word = says ? "right" : "wrong";
  return (
    <button
      type="button"
      class={`verdict ${word}`}
      aria-pressed={said === says}
      aria-label={`${name}: ${word}`}
      title={word}
      onClick={press}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={says ? "M3 8.5l3.2 3.3L13 4.5" : "M4 4l8 8M12 4l-8 8"} />
      </svg>
    </button>
  );
}
