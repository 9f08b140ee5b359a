/** Who the reader is: the key, the namespace, and what the key allows. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Me } from "../api/types";
import { Dialog } from "../parts/dialog";
import { Fact } from "../parts/spec";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { asked, changeKey, chooseNamespace, identify, key, me, refusal, useKey } from "../state/session";
import { limits } from "../words/limits";
import { Command } from "./empty";

/** In place of everything else, as long as the service does not know who asks. */
export function Entrance(): VNode {
  const trouble = refusal.value;
  if (trouble === null) return <p class="waiting">Asking who you are …</p>;
  if (trouble.status !== 401) {
    return (
      <>
        <h1>toolcrib</h1>
        <TroubleNote trouble={trouble} again={identify}>
          {[403, 422].includes(trouble.status) && asked.value && (
            <p>
              <button type="button" onClick={() => chooseNamespace("")}>
                Leave namespace {asked.value}
              </button>
            </p>
          )}
        </TroubleNote>
        {trouble.status === 403 && <KeyForm use={changeKey} />}
      </>
    );
  }
  return (
    <section class="entrance">
      <h1>This service wants a key</h1>
      {key.value !== "" && (
        <p class="warning" role="alert">
          <b>The key does not hold.</b> <Untrusted text={trouble.message} />
        </p>
      )}
      <KeyForm use={useKey} />
      <p class="note">
        The key stays in this tab, and is gone when the tab is closed. Who runs the service makes
        one:
      </p>
      <Command text="toolcrib keys create my-name" />
    </section>
  );
}

function KeyForm({ use }: { use: (text: string) => unknown }): VNode {
  const [text, setText] = useState("");
  const send = (event: Event): void => {
    event.preventDefault();
    if (!text.trim()) return;
    use(text);
    setText("");
  };
  return (
    <form class="key-form" onSubmit={send}>
      <label class="field">
        API key
        <input
          type="password"
          name="key"
          autocomplete="off"
          spellcheck={false}
          placeholder="tc_…"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="strong">
        Use it
      </button>
    </form>
  );
}

export function AccessDialog({ close }: { close: () => void }): VNode {
  const who = me.value;
  return (
    <Dialog title="Who you are" close={close}>
      {who && <Whoami who={who} />}
      {who && <Namespaces who={who} close={close} />}
      <h3>{key.value ? "Another key" : "A key"}</h3>
      <KeyForm use={changeKey} />
      {key.value && (
        <p>
          <button type="button" onClick={() => changeKey("")}>
            Forget the key
          </button>
        </p>
      )}
    </Dialog>
  );
}

const MAY: Readonly<Record<Me["access"], string>> = {
  read: "read only",
  write: "read and write",
  admin: "read, write, and manage keys and servers",
};

function Whoami({ who }: { who: Me }): VNode {
  const found = limits(who.scope);
  const held = found.length > 0 ? found : [["limits", "none"] as const];
  return (
    <dl class="facts">
      <Fact name="name">
        <Untrusted text={who.name} />
      </Fact>
      <Fact name="may">{MAY[who.access]}</Fact>
      <Fact name="namespaces">
        {who.namespaces.includes("*") ? "all" : <Untrusted text={who.namespaces.join(", ")} />}
      </Fact>
      {held.map(([name, text]) => (
        <Fact key={name} name={name}>
          <Untrusted text={text} />
        </Fact>
      ))}
    </dl>
  );
}

function Namespaces({ who, close }: { who: Me; close: () => void }): VNode {
  const [text, setText] = useState(who.namespace);
  const names = who.namespaces.filter((name) => name !== "*");
  const free = names.length < who.namespaces.length;
  const choose = (name: string): void => {
    chooseNamespace(name);
    close();
  };
  if (!free) {
    return (
      <label class="field">
        Namespace
        <select value={who.namespace} onChange={(event) => choose(event.currentTarget.value)}>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <form
      class="key-form"
      onSubmit={(event) => {
        event.preventDefault();
        choose(text.trim());
      }}
    >
      <label class="field">
        Namespace
        <input
          value={text}
          pattern="[a-z0-9][a-z0-9_.\-]{0,62}"
          title="small letters, digits, '.', '_' and '-'"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Go there</button>
    </form>
  );
}
