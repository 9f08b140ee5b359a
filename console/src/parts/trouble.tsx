/** Something went wrong: what, why, and what to do about it. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Trouble } from "../api/call";
import { announce } from "../state/announce";
import { several } from "../words/figures";
import { Untrusted } from "./untrusted";

interface Props {
  trouble: Trouble;
  again?: () => void;
  children?: ComponentChildren;
}

export function TroubleNote({ trouble, again, children }: Props): VNode {
  const rest = useCountdown(trouble);
  useEffect(() => announce(`${trouble.title}. ${trouble.message}`), [trouble]);
  // The message of several faults is their list once more.
  const detail = trouble.faults.length || trouble.message === trouble.title ? "" : trouble.message;
  return (
    <div class="trouble" data-kind={trouble.slug}>
      <p class="trouble-title">{trouble.title}</p>
      {detail && (
        <p>
          <Untrusted text={detail} />
        </p>
      )}
      <p>{advice(trouble)}</p>
      {trouble.faults.length > 0 && (
        <ul>
          {trouble.faults.map((fault, place) => (
            <li key={place}>
              <code>{fault.place}</code> <Untrusted text={fault.reason} />
            </li>
          ))}
        </ul>
      )}
      {children}
      <p class="row">
        {again && helps(trouble) && (
          <button type="button" onClick={again} disabled={rest > 0}>
            {rest > 0 ? `Try again in ${several(rest, "second")}` : "Try again"}
          </button>
        )}
        {trouble.request && <small>request {trouble.request}</small>}
      </p>
    </div>
  );
}

/** What helps, where the status tells. */
function advice(trouble: Trouble): string {
  switch (trouble.status) {
    case 403:
      return "The key that is in use does not allow it. `toolcrib keys create` makes another one.";
    case 429:
      return "The key has a limit of requests. Wait a little, then ask again.";
    case 503:
      return "Should the service be away, the page notices when it is back, and asks again.";
    default:
      return "";
  }
}

/** Whether asking the same again may be answered otherwise. */
function helps({ status }: Trouble): boolean {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

/** Whole seconds until asking again makes sense. */
function useCountdown(trouble: Trouble): number {
  const [rest, setRest] = useState(Math.ceil(trouble.retryAfterS ?? 0));
  useEffect(() => setRest(Math.ceil(trouble.retryAfterS ?? 0)), [trouble]);
  useEffect(() => {
    if (rest <= 0) return undefined;
    const timer = setTimeout(() => setRest(rest - 1), 1000);
    return () => clearTimeout(timer);
  }, [rest]);
  return rest;
}
