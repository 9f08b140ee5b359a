/** A turn decided once more, beside what was decided then. */

import type { VNode } from "preact";
import { call } from "../api/call";
import type { Decision, DecisionRecord } from "../api/types";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { useAnswer } from "../state/answers";
import { asked } from "../state/session";
import { millis, percent } from "../words/figures";

export function Replay({ record, text }: { record: DecisionRecord; text: string }): VNode {
  const { value, trouble, again } = useAnswer(
    (signal) => call<Decision>("v1/route", { method: "POST", body: { text }, signal }),
    [asked.value, record.id],
  );
  if (trouble) return <TroubleNote trouble={trouble} again={again} />;
  if (value === undefined) return <Waiting what="Deciding" />;
  const rows = compared(record, value);
  const same = rows.every((row) => row.then === row.now || row.free);
  return (
    <section class="replay" aria-label="Then and now">
      <p role="status">
        {same ? "It is decided as it was." : "It is decided differently now."}{" "}
        <span class="note">
          With the turn's own words; history, attachments and ceilings are not kept.
        </span>
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Then and now">
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span class="unseen">what</span>
              </th>
              <th scope="col">then</th>
              <th scope="col">now</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name} class={row.then === row.now || row.free ? "" : "differs"}>
                <th scope="row">{row.name}</th>
                <td>
                  <Untrusted text={row.then} />
                </td>
                <td>
                  <Untrusted text={row.now} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface Row {
  name: string;
  then: string;
  now: string;
  /** It may differ without anything being different. */
  free?: boolean;
}

function compared(record: DecisionRecord, decision: Decision): Row[] {
  const ids = (items: readonly { id: string }[]): string => items.map((item) => item.id).join("\n");
  const total = (took: Readonly<Record<string, number>>): string => millis(took["total"] ?? 0);
  const both = <T,>(name: string, of: (from: DecisionRecord | Decision) => T): Row => ({
    name,
    then: String(of(record)),
    now: String(of(decision)),
  });
  return [
    both("route", (from) => from.route.kind),
    both("sure of it", (from) => percent(from.route.confidence)),
    both("intent", (from) => from.context.intent ?? "none"),
    both("domain", (from) => from.context.domain ?? "none"),
    both("verdict", (from) => from.tools.verdict),
    both("tools", ({ tools }) => ids("items" in tools ? tools.items : tools.tools) || "none"),
    both("passages", (from) => ids(from.knowledge.passages) || "none"),
    both("degraded", (from) => from.degraded.join(", ") || "nothing"),
    { name: "time", then: total(record.took_ms), now: total(decision.took_ms), free: true },
  ];
}
