/** What changed between two texts, line by line, with what is far from any change left out. */

import type { VNode } from "preact";
import { difference, type Line } from "../words/difference";
import { several } from "../words/figures";
import { Untrusted } from "./untrusted";

const AROUND = 2;
const SIGNS = { same: " ", old: "−", new: "+" } as const;

interface Props {
  old: string;
  now: string;
  label: string;
}

export function Difference({ old, now, label }: Props): VNode {
  const lines = difference(old, now);
  if (lines.every((line) => line.kind === "same")) return <p class="note">Nothing differs.</p>;
  return (
    <pre class="difference" role="group" tabIndex={0} aria-label={label}>
      {nearChanges(lines).map((line, place) =>
        typeof line === "number" ? (
          <span key={place} class="skipped">
            {`… ${several(line, "line")} the same\n`}
          </span>
        ) : (
          <span key={place} class={line.kind}>
            <span class="unseen">{line.kind === "same" ? "" : `${line.kind}: `}</span>
            <span aria-hidden="true">{SIGNS[line.kind]} </span>
            <Untrusted text={line.text} />
            {"\n"}
          </span>
        ),
      )}
    </pre>
  );
}

/** The changes with some lines around them; a number stands for lines that are left out. */
function nearChanges(lines: readonly Line[]): (Line | number)[] {
  const near = (place: number): boolean =>
    lines
      .slice(Math.max(0, place - AROUND), place + AROUND + 1)
      .some((line) => line.kind !== "same");
  const shown: (Line | number)[] = [];
  lines.forEach((line, place) => {
    const last = shown.at(-1);
    if (near(place)) shown.push(line);
    else if (typeof last === "number") shown[shown.length - 1] = last + 1;
    else shown.push(1);
  });
  return shown;
}
