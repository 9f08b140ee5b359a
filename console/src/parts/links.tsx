/** What a tool needs of others, who needs it and what goes with it, as a small graph. */

import type { VNode } from "preact";
import { call } from "../api/call";
import type { Link, Links } from "../api/types";
import { useAnswer } from "../state/answers";
import { link } from "../state/place";
import { asked } from "../state/session";
import { several } from "../words/figures";
import { Untrusted } from "./untrusted";

const MOST = 8;

export function LinkGraph({ id, name }: { id: string; name: string }): VNode | null {
  const { value } = useAnswer(
    (signal) => call<Links>("v1/tools/links", { body: { id }, signal }),
    [asked.value, id],
  );
  if (value === undefined) return null;
  const { needs, needed_by: users, goes_with: mates, replaced_by: successor } = value;
  return (
    <>
      {successor && (
        <p class="warning">
          Deprecated: use <Node id={successor} /> instead.
        </p>
      )}
      {needs.length + users.length + mates.length > 0 && (
        <section class="link-graph" aria-label="Links to other tools">
          <Side title="needs first" linked={needs} />
          <p class="link-middle">
            <Untrusted text={name} />
          </p>
          <Side title="is needed by" linked={users} />
          {mates.length > 0 && <Side title="brings along" linked={mates} />}
        </section>
      )}
    </>
  );
}

function Side({ title, linked }: { title: string; linked: readonly Link[] }): VNode {
  return (
    <div class="link-side">
      <span class="label">{title}</span>
      <ul>
        {linked.slice(0, MOST).map((each) => (
          <li key={`${each.id} ${each.parameter}`}>
            <Node id={each.id} />
            {each.parameter && (
              <small>
                <Untrusted text={each.parameter} />
              </small>
            )}
          </li>
        ))}
        {linked.length === 0 && <li>no other tool</li>}
        {linked.length > MOST && <li>and {several(linked.length - MOST, "other")}</li>}
      </ul>
    </div>
  );
}

function Node({ id }: { id: string }): VNode {
  return (
    <a href={link("registry", { tool: id })}>
      <Untrusted text={id} />
    </a>
  );
}
