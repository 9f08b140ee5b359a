/** Tools put into the registry from a file or pasted, and all of a server taken out. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api/call";
import type { ToolReport } from "../api/types";
import { Confirm, Dialog } from "../parts/dialog";
import { parsed, PasteField } from "../parts/paste";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { announce } from "../state/announce";
import { useWriting } from "../state/answers";
import { adjust, link, place } from "../state/place";
import { several } from "../words/figures";

const HINT = '{"tools": [{"name": "send_mail", "description": "Send a mail."}]}';

interface EndProps {
  close: () => void;
  done: () => void;
}

/** Buttons beside the list of tools. */
export function Sources({ done }: { done: () => void }): VNode {
  const [open, setOpen] = useState<"add" | "remove">();
  const [server, ...others] = place.value.params.getAll("server");
  const close = (): void => setOpen(undefined);
  return (
    <div class="row sources">
      <button type="button" onClick={() => setOpen("add")}>
        Add tools
      </button>
      {server !== undefined && others.length === 0 && (
        <button type="button" class="danger" onClick={() => setOpen("remove")}>
          Remove all of <Untrusted text={server} />
        </button>
      )}
      {open === "add" && <Adding close={close} done={done} />}
      {open === "remove" && server && <Removing server={server} close={close} done={done} />}
    </div>
  );
}

function send(tools: unknown, server: string, prune: boolean): Promise<ToolReport> {
  const body = { tools, server: server.trim() || null, prune };
  return call<ToolReport>("v1/tools", { method: "POST", body });
}

function Adding({ close, done }: EndProps): VNode {
  const [text, setText] = useState("");
  const [server, setServer] = useState("");
  const [prune, setPrune] = useState(false);
  const [report, setReport] = useState<ToolReport>();
  const { trouble, write } = useWriting();
  const add = (event: Event): Promise<void> => {
    event.preventDefault();
    return write(async () => {
      setReport(await send(parsed(text), server, prune && server.trim() !== ""));
      announce("tools added");
      done();
    });
  };
  if (report) return <Report report={report} close={close} />;
  return (
    <Dialog title="Add tools" close={close}>
      <form class="fields" onSubmit={add}>
        <PasteField
          label="MCP, OpenAPI, OpenAI, Anthropic or our own tools: JSON, or a tool a line"
          hint={HINT}
          text={text}
          set={setText}
        />
        <label class="field wide">
          Server <small>in place of the one that the tools name</small>
          <input value={server} onInput={(event) => setServer(event.currentTarget.value)} />
        </label>
        <label class="switch wide">
          <input
            type="checkbox"
            checked={prune}
            disabled={!server.trim()}
            onChange={(event) => setPrune(event.currentTarget.checked)}
          />
          Remove the server's other tools
        </label>
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

function Report({ report, close }: { report: ToolReport; close: () => void }): VNode {
  const { added, changed, unchanged, removed, quarantined, refused } = report;
  const counts = { added, changed, unchanged, removed, refused: refused.length };
  return (
    <Dialog title="Tools" close={close}>
      <p>
        {Object.entries(counts)
          .map(([name, n]) => `${n} ${name}`)
          .join(", ")}
      </p>
      {quarantined.length > 0 && (
        <p class="warning">
          <a href={link("quarantine")}>{several(quarantined.length, "tool")}</a> held back until
          somebody approves.
        </p>
      )}
      <ul>
        {refused.map(({ place: at, reason }, number) => (
          <li key={number}>
            <Untrusted text={[at, reason].filter(Boolean).join(": ")} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function Removing({ server, close, done }: EndProps & { server: string }): VNode {
  const { trouble, write } = useWriting();
  const remove = (): Promise<void> =>
    write(async () => {
      const report = await send([], server, true);
      announce(`${several(report.removed, "tool")} removed`);
      close();
      adjust({ server: undefined, after: undefined });
      done();
    });
  return (
    <Confirm title="Remove all its tools?" verb="Remove" danger confirm={remove} close={close}>
      <p>
        All tools of{" "}
        <b>
          <Untrusted text={server} />
        </b>{" "}
        are taken out of the registry.
      </p>
      {trouble && <TroubleNote trouble={trouble} />}
    </Confirm>
  );
}
