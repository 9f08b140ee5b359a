/** Tools that are held back: why, what changed, and what becomes of them. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, idPath } from "../api/call";
import type { Held, Spec } from "../api/types";
import { Confirm } from "../parts/dialog";
import { Difference } from "../parts/difference";
import { Findings } from "../parts/findings";
import { Fact, SpecSheet } from "../parts/spec";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useWriting } from "../state/answers";
import { walk } from "../state/arrows";
import { adjust, place } from "../state/place";
import { asked, mayWrite } from "../state/session";
import { several, when } from "../words/figures";

type Choice = "approve" | "reject";

export function Quarantine(): VNode {
  const { value, trouble, again } = useAnswer(
    (signal) => call<{ held: Held[] }>("v1/quarantine", { signal }),
    [asked.value],
  );
  const chosen = place.value.params.get("held");
  const held = value?.held ?? [];
  return (
    <>
      <h1>Quarantine {value && <small>{several(held.length, "tool")} held back</small>}</h1>
      <p class="lede">
        New or changed tools whose text could mislead a model. No agent gets them until somebody
        approves this very version.
      </p>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && held.length === 0 && <p class="calm">Nothing is held back.</p>}
      {value && chosen && !held.some((each) => each.tool_id === chosen) && (
        <p class="note">
          <Untrusted text={chosen} /> is not held back any more.
        </p>
      )}
      <ul class="held-list" onKeyDown={walk}>
        {held.map((each) => (
          <HeldLine key={each.tool_id} held={each} open={each.tool_id === chosen} done={again} />
        ))}
      </ul>
    </>
  );
}

interface LineProps {
  held: Held;
  open: boolean;
  done: () => void;
}

function HeldLine({ held, open, done }: LineProps): VNode {
  const worst = held.findings.filter((finding) => finding.severity === "block").length;
  return (
    <li class="held">
      <button
        type="button"
        class="held-head"
        data-stop
        aria-expanded={open}
        onClick={() => adjust({ held: open ? undefined : held.tool_id })}
      >
        <b>
          <Untrusted text={held.tool_id} />
        </b>
        {held.was_digest && <span class="tag">changed</span>}
        {worst > 0 && <span class="tag severity-block">{worst} blocking</span>}
        <span class="hit-about">
          <Untrusted text={held.reason} />
        </span>
      </button>
      {open && <HeldSheet held={held} done={done} />}
    </li>
  );
}

function HeldSheet({ held, done }: { held: Held; done: () => void }): VNode {
  const [choice, setChoice] = useState<Choice>();
  return (
    <div class="held-sheet">
      <dl class="facts">
        <Fact name="server">
          <Untrusted text={held.server || "none"} />
        </Fact>
        <Fact name="sent by">
          {held.written_by ? (
            <>
              the key <code>{held.written_by}</code>
            </>
          ) : (
            "no key"
          )}
        </Fact>
        <Fact name="held since">{when(held.since)}</Fact>
        <Fact name="digest">
          <code>{held.digest}</code>
        </Fact>
        <Fact name="approved before">
          {held.was_digest ? <code>{held.was_digest}</code> : "never"}
        </Fact>
      </dl>
      <h2>What the audit found</h2>
      <Findings findings={held.findings} spec={held.spec} />
      <Changes held={held} />
      {mayWrite.value ? (
        <p class="row">
          <button type="button" onClick={() => setChoice("approve")}>
            Approve
          </button>
          <button type="button" class="danger" onClick={() => setChoice("reject")}>
            Reject
          </button>
        </p>
      ) : (
        <p class="note">To approve or reject it you need a key that may write.</p>
      )}
      {choice && (
        <Judgement held={held} choice={choice} close={() => setChoice(undefined)} done={done} />
      )}
    </div>
  );
}

/** How it differs from the version that was served; the whole of it, where none was. */
function Changes({ held }: { held: Held }): VNode {
  if (!held.replaces) {
    return (
      <>
        <h2>What would be served</h2>
        <SpecSheet spec={held.spec} />
      </>
    );
  }
  return (
    <>
      <h2>What changes</h2>
      <Difference
        old={inLines(held.replaces)}
        now={inLines(held.spec)}
        label="The version that was served, and the one that is held back"
      />
      <details class="whole">
        <summary>What would be served, as a whole</summary>
        <SpecSheet spec={held.spec} />
      </details>
    </>
  );
}

/** A specification in lines short enough to be compared: sentences stand alone. */
function inLines(spec: Spec): string {
  return JSON.stringify(spec, null, 2).replace(/([.!?]|\\n) (?=\S)/g, "$1\n      ");
}

interface JudgementProps {
  held: Held;
  choice: Choice;
  close: () => void;
  done: () => void;
}

function Judgement({ held, choice, close, done }: JudgementProps): VNode {
  const { trouble, write } = useWriting();
  const judge = (): Promise<void> =>
    write(async () => {
      const path = `v1/quarantine/${idPath(held.tool_id)}`;
      await call(path, { method: "POST", body: { verdict: choice, digest: held.digest } });
      announce(`${held.tool_id}: ${choice === "approve" ? "approved" : "rejected"}`);
      close();
      done();
    });
  const approves = choice === "approve";
  return (
    <Confirm
      title={approves ? "Approve this version?" : "Reject this version?"}
      verb={approves ? "Approve" : "Reject"}
      danger={!approves}
      confirm={judge}
      close={close}
    >
      <p>
        <b>
          <Untrusted text={held.tool_id} />
        </b>
        {approves
          ? " is served to agents from now on, with exactly this text. A later change is held back again."
          : " is forgotten. If its source sends it again, it is held back again."}
      </p>
      {approves && held.findings.length > 0 && (
        <p class="warning">
          Against it: {several(held.findings.length, "finding")} of the audit.
        </p>
      )}
      {trouble && <TroubleNote trouble={trouble} />}
    </Confirm>
  );
}
