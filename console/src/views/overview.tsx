/** Overview: servers with their tools, held tools, and the calls that agents reported. */

import type { VNode } from "preact";
import { call } from "../api/call";
import type { Facets, GatewayActivity, Held, ReportedCall } from "../api/types";
import { Rows } from "../parts/rows";
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
  gateway: GatewayActivity;
}

async function look(signal: AbortSignal): Promise<Seen> {
  const query = new URLSearchParams({ limit: String(CALLS) });
  const [facets, quarantine, outcomes, gateway] = await Promise.all([
    call<Facets>("v1/facets", { signal }),
    call<{ held: Held[] }>("v1/quarantine", { signal }),
    call<{ calls: ReportedCall[] }>("v1/outcomes", { query, signal }),
    call<GatewayActivity>("v1/activity", { signal }),
  ]);
  return { facets, held: quarantine.held, calls: outcomes.calls, gateway };
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
            {several(value.calls.length + (value.gateway.kept ?? 0), "call")}
          </small>
        )}
      </h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && (
        <>
          <Servers {...value} />
          <Activity calls={value.calls} relayed={value.gateway.kept ?? 0} />
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

function Servers({ facets, held, calls, gateway }: Seen): VNode {
  const behind = new Map((gateway.servers ?? []).map((each) => [each.name, each]));
  const own = (list: readonly { server: string }[], name: string): number =>
    list.filter(({ server }) => server === name).length;
  const reported = calls.map((each) => ({ ...each, server: serverOf(each.outcome.tool) }));
  const names = new Set([
    ...Object.keys(facets.servers),
    ...held.map((each) => each.server),
    ...behind.keys(),
  ]);
  const columns = ["Server", "Tools", "Held back", "Calls", "Failed"];
  return (
    <section class="part">
      <h2>Servers</h2>
      <Rows label="Servers" columns={behind.size ? [...columns, "Tokens saved"] : columns}>
        {[...names].sort().map((name) => {
          const at = behind.get(name);
          const running = at?.state ? at : undefined;
          const kept = own(held, name);
          const tools = facets.servers[name] ?? (kept > 0 ? 0 : undefined);
          return (
            <tr key={name}>
              <th scope="row">
                <a href={link("registry", { server: name })}>
                  <Untrusted text={name || "no server"} />
                </a>
                {at && (
                  <small>
                    {" "}
                    {at.state ?? "not running"} <Untrusted text={at.reason ?? ""} />
                  </small>
                )}
              </th>
              <td>
                <Tools index={tools} gateway={running?.tools} />
              </td>
              <td>
                <Tools index={tools === undefined ? undefined : kept} gateway={running?.held} />
              </td>
              <td>{count(own(reported, name) + (at?.calls ?? 0))}</td>
              <td>{count(own(reported.filter(failed), name) + (at?.failures ?? 0))}</td>
              {behind.size > 0 && <td>{at && count(at.saved ?? 0)}</td>}
            </tr>
          );
        })}
      </Rows>
    </section>
  );
}

/** Number of tools of the index; also the gateway's, if it is another. */
function Tools({ index, gateway }: { index?: number; gateway?: number }): VNode {
  if (index === undefined) return <>{count(gateway ?? 0)}</>;
  if (gateway === undefined || gateway === index) return <>{count(index)}</>;
  return (
    <>
      {count(index)} <small>gateway&nbsp;{count(gateway)}</small>
    </>
  );
}

function Activity(props: { calls: readonly ReportedCall[]; relayed: number }): VNode {
  const { calls, relayed } = props;
  return (
    <section class="part">
      <h2>Activity</h2>
      {relayed > 0 && (
        <p>
          <a href={link("activity")}>{several(relayed, "call")} at the gateway</a>
        </p>
      )}
      {calls.length + relayed === 0 && <p class="calm">No call has been reported.</p>}
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
