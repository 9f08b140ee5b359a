/** The service's keys: what each allows, a new one, and revoking. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api/call";
import { type Grant, type KeyBody, type KeyList, type ListedKey, type NewKey, SENSITIVITIES } from "../api/types";
import { Choice } from "../parts/choice";
import { Confirm, Dialog } from "../parts/dialog";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useWriting } from "../state/answers";
import { adjust, place } from "../state/place";
import { mayAdminister } from "../state/session";
import { limits } from "../words/limits";
import { several, when } from "../words/figures";
import { AdminOnly, Command } from "./empty";

export function Keys(): VNode {
  const may = mayAdminister.value;
  const { value, trouble, again } = useAnswer(
    may ? (signal) => call<KeyList>("v1/keys", { signal }) : null,
    [may],
  );
  const [makes, setMakes] = useState(false);
  const [gone, setGone] = useState<ListedKey>();
  const state = place.value.params.get("state") ?? "";
  const keys = (value?.keys ?? []).filter((key) => !state || key.state === state);
  return (
    <>
      <h1>Keys {value && <small>{several(value.keys.length, "key")}</small>}</h1>
      {!may && <AdminOnly what="Keys are listed, made and revoked" />}
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {may && value === undefined && !trouble && <Waiting what="Reading" />}
      {value && (
        <>
          <div class="filters">
            <Choice
              label="State"
              value={state}
              options={["active", "expired", "revoked"]}
              none="all"
              set={(chosen) => adjust({ state: chosen }, true)}
            />
            <button type="button" class="strong" onClick={() => setMakes(true)}>
              Make a key
            </button>
          </div>
          <ul class="specs" aria-label="Keys">
            {keys.map((key) => (
              <Line key={key.id} of={key} revoke={() => setGone(key)} />
            ))}
          </ul>
          {keys.length === 0 && <p class="note">No key is like this.</p>}
        </>
      )}
      {makes && <Making close={() => setMakes(false)} done={again} />}
      {gone && <Revoking of={gone} close={() => setGone(undefined)} done={again} />}
    </>
  );
}

function Line({ of: key, revoke }: { of: ListedKey; revoke: () => void }): VNode {
  return (
    <li class="entry">
      <div>
        <b>
          <Untrusted text={key.name} />
        </b>{" "}
        <small>{key.id}</small> {key.state !== "active" && <span class="tag">{key.state}</span>}
        <p class="note">
          <Untrusted text={about(key)} />
        </p>
      </div>
      {key.state === "active" && (
        <button type="button" class="danger" aria-label={`Revoke ${key.name}`} onClick={revoke}>
          Revoke
        </button>
      )}
    </li>
  );
}

function about({ grant, created_at, expires_at }: ListedKey): string {
  const spaces = grant.namespaces.includes("*") ? "all namespaces" : grant.namespaces.join(", ");
  const held = limits(grant).map((pair) => pair.join(": "));
  const expires = expires_at ? `expires ${when(expires_at)}` : "never expires";
  return [grant.access, spaces, ...held, `made ${when(created_at)}`, expires].join("; ");
}

interface EndProps {
  close: () => void;
  done: () => void;
}

function Revoking({ of: key, close, done }: EndProps & { of: ListedKey }): VNode {
  const { trouble, write } = useWriting();
  const revoke = (): Promise<void> =>
    write(async () => {
      await call(`v1/keys/${key.id}`, { method: "DELETE" });
      announce(`${key.name}: revoked`);
      close();
      done();
    });
  return (
    <Confirm title="Revoke this key?" verb="Revoke" danger confirm={revoke} close={close}>
      <p>
        <b>
          <Untrusted text={key.name} />
        </b>{" "}
        ({key.id}) stops within two seconds, and for good.
      </p>
      {trouble && <TroubleNote trouble={trouble} />}
    </Confirm>
  );
}

/** The fields of a key as they are typed; names stand apart by commas. */
const FIELDS: readonly (readonly [keyof Grant | "name" | "days", string, string])[] = [
  ["name", "Whose it is", ""],
  ["namespaces", "Namespaces", "default; * for all"],
  ["servers", "Only these servers", "all"],
  ["tags", "Only these tags", "all"],
  ["collections", "Only these collections", "all"],
  ["rate", "Rate", "20/second"],
  ["days", "Expires after days", "never"],
  ["profile", "Profile of a gateway", "none"],
];

/** Rules of fields that the browser holds; a text that is no number would be lost, and the key kept. */
const RULES: Readonly<Record<string, object>> = {
  name: { required: true },
  days: { type: "number", min: 0.001, step: "any" },
};

function Making({ close, done }: EndProps): VNode {
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const [made, setMade] = useState<NewKey>();
  const { trouble, write } = useWriting();
  const set = (name: string, value: string): void => setTyped({ ...typed, [name]: value });
  const make = (event: Event): Promise<void> => {
    event.preventDefault();
    return write(async () => {
      setMade(await call<NewKey>("v1/keys", { method: "POST", body: asBody(typed) }));
      announce("key made");
      done();
    });
  };
  if (made) {
    return (
      <Dialog title="The new key" close={close}>
        <p>
          The key of <Untrusted text={made.key.name} />. It is stored nowhere, and shown this once:
        </p>
        <Command text={made.text} what="the key" />
      </Dialog>
    );
  }
  return (
    <Dialog title="Make a key" close={close}>
      <form class="fields" onSubmit={make}>
        {FIELDS.map(([name, label, hint]) => (
          <label class="field" key={name}>
            {label}
            <input
              {...RULES[name]}
              placeholder={hint}
              autocomplete="off"
              value={typed[name] ?? ""}
              onInput={(event) => set(name, event.currentTarget.value)}
            />
          </label>
        ))}
        <Choice
          label="Nothing more sensitive than"
          value={typed["max_sensitivity"] ?? ""}
          options={SENSITIVITIES}
          none="no ceiling"
          set={(value) => set("max_sensitivity", value)}
        />
        <Choice
          label="Access"
          value={typed["access"] ?? ""}
          options={["write"]}
          words={{ write: "read and write" }}
          none="read"
          set={(value) => set("access", value)}
        />
        <p class="note wide">Several names: commas between them.</p>
        {trouble && <TroubleNote trouble={trouble} />}
        <div class="row end wide">
          <button type="submit" class="strong">
            Make it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const LISTS = new Set(["namespaces", "servers", "tags", "collections"]);

function asBody(typed: Readonly<Record<string, string>>): KeyBody {
  const { name = "", days, ...rest } = typed;
  const grant: Record<string, unknown> = {};
  for (const [field, text] of Object.entries(rest)) {
    const value = text.trim();
    if (value) grant[field] = LISTS.has(field) ? names(value) : value;
  }
  return { name, grant, ...(days?.trim() ? { expires_days: Number(days) } : {}) };
}

function names(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}
