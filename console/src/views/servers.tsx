/** The servers that a gateway stands before: added, switched off and on, removed. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, idPath } from "../api/call";
import type { AddedServers, ConfiguredServer, ServerList } from "../api/types";
import { Confirm, Dialog } from "../parts/dialog";
import { parsed, PasteField } from "../parts/paste";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useWriting } from "../state/answers";
import { mayAdminister } from "../state/session";
import { several } from "../words/figures";
import { AdminOnly } from "./empty";

const HINT = '{"mcpServers": {"docs": {"url": "https://docs.example.com/mcp"}}}';

export function Servers(): VNode {
  const may = mayAdminister.value;
  const { value, trouble, again } = useAnswer(
    may ? (signal) => call<ServerList>("v1/servers", { signal }) : null,
    [may],
  );
  return (
    <>
      <h1>
        Servers {value?.editable && <small>{several(value.servers.length, "server")}</small>}
      </h1>
      {!may && <AdminOnly what="The servers of a gateway are changed" />}
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {may && value === undefined && !trouble && <Waiting what="Reading" />}
      {value && !value.editable && (
        <p class="calm">
          The servers of a gateway are changed here where the setting{" "}
          <code>service.gateway_config</code> names its <code>mcp.json</code>. It is off by default:
          who may add a server can start programs on the gateway's machine.
        </p>
      )}
      {value?.editable && <Listed servers={value.servers} done={again} />}
    </>
  );
}

function Listed({ servers, done }: { servers: readonly ConfiguredServer[]; done: () => void }): VNode {
  const [adds, setAdds] = useState(false);
  const [gone, setGone] = useState<string>();
  const { trouble, write } = useWriting();
  const change = (name: string, how: object, said: string): Promise<void> =>
    write(async () => {
      await call(`v1/servers/${idPath(name)}`, how);
      announce(`${name}: ${said}`);
      setGone(undefined);
      done();
    });
  const turn = (name: string, on: boolean): Promise<void> =>
    change(name, { method: "POST", body: { on } }, on ? "switched on" : "switched off");
  return (
    <>
      <p class="warning">
        A gateway starts the command of a server on its machine, with its rights. Add only what you
        trust.
      </p>
      <p>
        <button type="button" class="strong" onClick={() => setAdds(true)}>
          Add servers
        </button>
      </p>
      {trouble && <TroubleNote trouble={trouble} />}
      <ul class="specs" aria-label="Servers">
        {servers.map((server) => (
          <Line key={server.name} server={server} turn={turn} remove={setGone} />
        ))}
      </ul>
      {adds && <Adding close={() => setAdds(false)} done={done} />}
      {gone !== undefined && (
        <Confirm
          title="Remove this server?"
          verb="Remove"
          danger
          confirm={() => change(gone, { method: "DELETE" }, "removed")}
          close={() => setGone(undefined)}
        >
          <p>
            <b>
              <Untrusted text={gone} />
            </b>{" "}
            is taken out of the <code>mcp.json</code>; a running gateway ends it.
          </p>
        </Confirm>
      )}
    </>
  );
}

interface LineProps {
  server: ConfiguredServer;
  turn: (name: string, on: boolean) => void;
  remove: (name: string) => void;
}

function Line({ server, turn, remove }: LineProps): VNode {
  const { name, state } = server;
  const needs = server.variables ?? [];
  const said = [server.target, server.problem, needs.length > 0 && `needs ${needs.join(", ")}`];
  const next = state === "off" ? "on" : "off";
  return (
    <li class="entry">
      <div>
        <b>
          <Untrusted text={name} />
        </b>{" "}
        {state !== "on" && <span class="tag">{state}</span>}
        <p class="note">
          <Untrusted text={said.filter(Boolean).join("; ")} />
        </p>
      </div>
      <div class="row">
        <button
          type="button"
          aria-label={`Switch ${next} ${name}`}
          onClick={() => turn(name, state === "off")}
        >
          Switch {next}
        </button>
        <button
          type="button"
          class="danger"
          aria-label={`Remove ${name}`}
          onClick={() => remove(name)}
        >
          Remove
        </button>
      </div>
    </li>
  );
}

function Adding({ close, done }: { close: () => void; done: () => void }): VNode {
  const [text, setText] = useState("");
  const [added, setAdded] = useState<AddedServers>();
  const { trouble, write } = useWriting();
  const add = (event: Event): Promise<void> => {
    event.preventDefault();
    return write(async () => {
      const body = { document: parsed(text) };
      setAdded(await call<AddedServers>("v1/servers", { method: "POST", body }));
      announce("servers added");
      done();
    });
  };
  if (added) return <Added added={added} close={close} />;
  return (
    <Dialog title="Add servers" close={close}>
      <form class="fields" onSubmit={add}>
        <PasteField label="An mcp.json, or a server.json" hint={HINT} text={text} set={setText} />
        <p class="note wide">
          Write a secret as a variable, <code>{"${NAME}"}</code>: it stands in the environment of the
          gateway. What looks like a secret becomes one.
        </p>
        {trouble && <TroubleNote trouble={trouble} />}
        <div class="row end wide">
          <button type="submit" class="strong" disabled={!text.trim()}>
            Add
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Added({ added, close }: { added: AddedServers; close: () => void }): VNode {
  const unset = Object.entries(added.variables).map(
    ([name, places]) => `${name} is to be set for the gateway (${places.join("; ")})`,
  );
  const there = added.same.length > 0 ? [`${added.same.join(", ")}: there already`] : [];
  return (
    <Dialog title="Servers" close={close}>
      <p>
        Added: <Untrusted text={added.added.join(", ") || "none"} />
      </p>
      <ul>
        {[...unset, ...there, ...added.notes].map((note) => (
          <li key={note}>
            <Untrusted text={note} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
