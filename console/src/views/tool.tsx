/** One tool in full, and a way to take it out. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, idPath } from "../api/call";
import type { Spec } from "../api/types";
import { Confirm } from "../parts/dialog";
import { LinkGraph } from "../parts/links";
import { SpecSheet } from "../parts/spec";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useWriting } from "../state/answers";
import { adjust, link } from "../state/place";
import { asked, mayWrite } from "../state/session";
import { onEscape } from "../state/shortcuts";

const back = (): void => adjust({ tool: undefined });

export function Tool({ id }: { id: string }): VNode {
  const path = `v1/tools/${idPath(id)}`;
  const about = [asked.value, id];
  const { value, trouble, again } = useAnswer((signal) => call<Spec>(path, { signal }), about);
  useEffect(() => onEscape(back), []);
  return (
    <article class="tool">
      <p>
        <button type="button" class="quiet back" onClick={back}>
          ← Registry
        </button>
      </p>
      <h1>
        <Untrusted text={value?.name ?? id} />
      </h1>
      {trouble && (
        <TroubleNote trouble={trouble} again={again}>
          <Nearest ids={trouble.nearest} />
        </TroubleNote>
      )}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && (
        <>
          <p class="lede">
            <code>
              <Untrusted text={value.id} />
            </code>
            {!value.enabled && <span class="tag">disabled</span>}
            {value.always_active && <span class="tag rule">always active</span>}
          </p>
          <LinkGraph id={value.id} name={value.name} />
          <SpecSheet spec={value} />
          {mayWrite.value && <Remove spec={value} path={path} />}
        </>
      )}
    </article>
  );
}

function Nearest({ ids }: { ids: readonly string[] }): VNode | null {
  if (ids.length === 0) return null;
  return (
    <ul>
      {ids.map((id) => (
        <li key={id}>
          <a href={link("registry", { tool: id })}>
            <Untrusted text={id} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function Remove({ spec, path }: { spec: Spec; path: string }): VNode {
  const [asking, setAsking] = useState(false);
  const { trouble, write } = useWriting();
  const remove = (): Promise<void> =>
    write(async () => {
      await call(path, { method: "DELETE" });
      announce(`${spec.id} was deleted`);
      back();
    });
  return (
    <section class="remove">
      <button type="button" class="danger" onClick={() => setAsking(true)}>
        Delete this tool
      </button>
      {asking && (
        <Confirm
          title="Delete this tool?"
          verb="Delete"
          danger
          confirm={remove}
          close={() => setAsking(false)}
        >
          <p>
            <b>
              <Untrusted text={spec.id} />
            </b>{" "}
            is taken out of the index, and no agent finds it any more. It comes back when its source
            is indexed again.
          </p>
          {trouble && <TroubleNote trouble={trouble} />}
        </Confirm>
      )}
    </section>
  );
}
