/** Overview: servers with their tools, held tools, and the calls that agents reported. */

import type { VNode } from "preact";
import { call } from "../api/call";
import type { Facets, Held, ReportedCall } from "../api/types";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { useAnswer } from "../state/answers";
import { walk } from "../state/arrows";
import { link } from "../state/place";
import { asked } from "../state/session";
import { count, millis, several, when } from "../words/figures";

const CALLS = 200;

interface Seen {
  facets: Facets;
  held: readonly Held[];
  calls: readonly ReportedCall[];
}

async function look(signal: AbortSignal): Promise<Seen> {
  const query = new URLSearchParams({ limit: String(CALLS) });
  const [facets, quarantine, outcomes] = await Promise.all([
    call<Facets>("v1/facets", { signal }),
    call<{ held: Held[] }>("v1/quarantine", { signal }),
    call<{ calls: ReportedCall[] }>("v1/outcomes", { query, signal }),
  ]);
  return { facets, held: quarantine.held, calls: outcomes.calls };
}

export function Overview(): VNode {
  const { value, trouble, again } = useAnswer(look, [asked.value]);
  return (
    <>
      <h1>
        Overview{" "}
        {value && (
          <small>
            {several(value.facets.tools, "tool")}, {count(value.held.length)} held back,{" "}
            {several(value.calls.length, "call")}
          </small>
        )}
      </h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && (
        <>
          <Servers {...value} />
          <Activity calls={value.calls} />
        </>
      )}
    </>
  );
}

function failed({ outcome }: ReportedCall): boolean {
  return outcome.outcome === "failure";
}

/** Server of a tool's id. */
function serverOf(tool: string): string {
  const slash = tool.indexOf("/");
  return slash < 0 ? "" : tool.slice(0, slash);
}

function Servers({ facets, held, calls }: Seen): VNode {
  const names = [...new Set([...Object.keys(facets.servers), ...held.map((each) => each.server)])];
  return (
    <section class="part">
      <h2>Servers</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Servers">
        <table>
          <thead>
            <tr>
              {["Server", "Tools", "Held back", "Calls", "Failed"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.sort().map((name) => {
              const own = calls.filter(({ outcome }) => serverOf(outcome.tool) === name);
              return (
                <tr key={name}>
                  <th scope="row">
                    <a href={link("registry", { server: name })}>
                      <Untrusted text={name || "no server"} />
                    </a>
                  </th>
                  <td>{count(facets.servers[name] ?? 0)}</td>
                  <td>{count(held.filter(({ server }) => server === name).length)}</td>
                  <td>{count(own.length)}</td>
                  <td>{count(own.filter(failed).length)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Activity({ calls }: { calls: readonly ReportedCall[] }): VNode {
  return (
    <section class="part">
      <h2>Activity</h2>
      {calls.length === 0 && <p class="calm">No call has been reported.</p>}
      <ul class="records" onKeyDown={walk} aria-label="Calls">
        {calls.map(({ outcome, by }, place) => (
          <li key={`${outcome.decision} ${place}`}>
            <a class="record" data-stop href={link("decisions", { decision: outcome.decision })}>
              <time dateTime={outcome.at}>{when(outcome.at)}</time>
              <b class="record-route">{outcome.outcome}</b>
              <span class="record-what">
                <Untrusted text={outcome.tool} />
                {by && <small> for the key {by}</small>}
              </span>
              {typeof outcome.took_ms === "number" && (
                <span class="figure took">{millis(outcome.took_ms)}</span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
