/** Activity: the last calls at a gateway, read again every few seconds. */

import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { call } from "../api/call";
import type { GatewayActivity, GatewayCall } from "../api/types";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { useAnswer } from "../state/answers";
import { asked } from "../state/session";
import { count, millis, several, when } from "../words/figures";

const EVERY_MS = 5000;

export function Activity(): VNode {
  const query = new URLSearchParams({ limit: "200" });
  const { value, trouble, again } = useAnswer(
    (signal) => call<GatewayActivity>("v1/activity", { query, signal }),
    [asked.value],
  );
  useEffect(() => {
    const timer = setInterval(() => document.hidden || again(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <h1>Activity {value && <small>{several(value.kept ?? 0, "call")}</small>}</h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && <Calls {...value} />}
    </>
  );
}

function Calls({ calls = [], gateways = 0, saved = 0, failures = 0 }: GatewayActivity): VNode {
  if (calls.length === 0) {
    return (
      <p class="calm">
        No call of a gateway is known. The setting <code>service.gateway</code> names its store;
        keys without limits that may write see it, in the default namespace.
      </p>
    );
  }
  return (
    <>
      <p class="lede">
        {gateways ? several(gateways, "gateway") : "No gateway"} running, {count(failures)} failed,{" "}
        {several(saved, "token")} of definitions saved
      </p>
      <ul class="records" aria-label="Calls, newest first">
        {calls.map((each, place) => (
          <Line key={`${each.at} ${place}`} made={each} />
        ))}
      </ul>
    </>
  );
}

function Line({ made }: { made: GatewayCall }): VNode {
  return (
    <li class="record">
      <time dateTime={made.at}>{when(made.at)}</time>
      <b class="record-route">{made.outcome}</b>
      <span class="record-what">
        <Untrusted text={made.tool} />{" "}
        <small>
          <Untrusted text={made.agent} /> {made.by}
        </small>
        {made.arguments && (
          <details>
            <summary>arguments</summary>
            <code>
              <Untrusted text={made.arguments} />
            </code>
          </details>
        )}
      </span>
      <span class="record-tags figure">{several(made.tokens ?? 0, "token")}</span>
      <span class="sure-of" />
      <span class="figure took">{millis(made.took_ms)}</span>
    </li>
  );
}
