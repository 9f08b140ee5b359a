/** Says what would have been right, sends it, and shows that it was kept. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, type Trouble } from "../api/call";
import type { DecisionPage, FeedbackFields, FeedbackRecord } from "../api/types";
import { announce } from "../state/announce";
import { asTrouble } from "../state/answers";
import { asFeedback, clear, type Draft, draftOf, inWords } from "../state/draft";
import type { Signal } from "../state/signal";
import { several, when } from "../words/figures";
import { Choice } from "./choice";
import { ToolPicker } from "./picker";
import { TroubleNote } from "./trouble";
import { Untrusted } from "./untrusted";

interface Props {
  decision: string;
  /** What was said before, where that is known already. */
  before?: readonly FeedbackRecord[];
}

export function Feedback({ decision, before }: Props): VNode {
  const draft = draftOf(decision);
  const said = asFeedback(draft.value);
  const { kept, state, trouble, send } = useSending(decision, said, before ?? []);
  return (
    <div class="feedback">
      <p class="note">
        Mark route, tools and passages above as right or wrong, add what was missing, and send it.
        Passages count for their collection.
      </p>
      <div class="feedback-fields">
        <Missing draft={draft} />
        <Others draft={draft} />
      </div>
      <div class="send">
        <Summary said={said} />
        <button
          type="button"
          class="strong"
          disabled={said === null || state === "sending"}
          onClick={send}
        >
          {state === "sending" ? "Sending …" : "Send feedback"}
        </button>
      </div>
      {trouble && <TroubleNote trouble={trouble} again={send} />}
      {state === "landed" && said === null && (
        <p class="landed">
          Recorded. The service now keeps {several(kept.length, "remark")} on this decision.
        </p>
      )}
      <Kept records={kept} />
    </div>
  );
}

interface Sending {
  kept: readonly FeedbackRecord[];
  state: "open" | "sending" | "landed";
  trouble: Trouble | undefined;
  send: () => Promise<void>;
}

function useSending(
  decision: string,
  said: FeedbackFields | null,
  before: readonly FeedbackRecord[],
): Sending {
  const [kept, setKept] = useState(before);
  const [state, setState] = useState<Sending["state"]>("open");
  const [trouble, setTrouble] = useState<Trouble>();
  const send = async (): Promise<void> => {
    if (said === null || state === "sending") return;
    setState("sending");
    setTrouble(undefined);
    try {
      setKept(await put(decision, said));
      clear(decision);
      setState("landed");
      announce("Feedback recorded");
    } catch (error) {
      setTrouble(asTrouble(error));
      setState("open");
    }
  };
  return { kept, state, trouble, send };
}

/** Sends feedback and reads back what is kept, so that "recorded" is more than a hope. */
async function put(decision: string, said: FeedbackFields): Promise<readonly FeedbackRecord[]> {
  await call("v1/feedback", { method: "POST", body: { decision_id: decision, ...said } });
  const page = await call<DecisionPage>(`v1/decisions/${encodeURIComponent(decision)}`);
  return page.feedback;
}

function Summary({ said }: { said: FeedbackFields | null }): VNode {
  if (said === null) return <p class="note">Nothing is said yet.</p>;
  return (
    <ul class="summary" aria-label="What will be sent">
      {inWords(said).map((line) => (
        <li key={line}>
          <Untrusted text={line} />
        </li>
      ))}
    </ul>
  );
}

function Missing({ draft }: { draft: Signal<Draft> }): VNode {
  const { missing } = draft.value;
  const set = (ids: readonly string[]): void => {
    draft.value = { ...draft.value, missing: ids };
  };
  return (
    <div class="missing">
      <ToolPicker
        label="This tool was missing"
        pick={(id) => set([...missing.filter((each) => each !== id), id])}
      />
      {missing.length > 0 && (
        <ul class="picked" aria-label="Missing tools">
          {missing.map((id) => (
            <li key={id}>
              <Untrusted text={id} />
              <button
                type="button"
                class="quiet"
                aria-label={`Take ${id} off the list`}
                onClick={() => set(missing.filter((each) => each !== id))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Others({ draft }: { draft: Signal<Draft> }): VNode {
  const set = (changes: Partial<Draft>): void => {
    draft.value = { ...draft.value, ...changes };
  };
  const { intent, domain, outcome, note } = draft.value;
  return (
    <details class="others">
      <summary>Intent, domain, outcome, note</summary>
      <label class="field">
        Right intent <small>leave empty if not said; “none” where no label fits</small>
        <input
          value={intent === "" ? "none" : (intent ?? "")}
          onInput={(event) => set({ intent: label(event.currentTarget.value) })}
        />
      </label>
      <label class="field">
        Right domain
        <input
          value={domain === "" ? "none" : (domain ?? "")}
          onInput={(event) => set({ domain: label(event.currentTarget.value) })}
        />
      </label>
      <Choice
        label="What became of it"
        value={outcome ?? ""}
        options={["success", "failure"]}
        none="not said"
        set={(value) => set({ outcome: (value || undefined) as Draft["outcome"] })}
      />
      <label class="field">
        Note <small>kept only where the service keeps texts (`telemetry.text`)</small>
        <input value={note} onInput={(event) => set({ note: event.currentTarget.value })} />
      </label>
    </details>
  );
}

/** Nothing said is undefined; "none" says that no label fits. */
function label(text: string): string | undefined {
  if (text.trim() === "") return undefined;
  return text.trim().toLowerCase() === "none" ? "" : text;
}

function Kept({ records }: { records: readonly FeedbackRecord[] }): VNode | null {
  if (records.length === 0) return null;
  return (
    <ul class="kept" aria-label="Feedback that is kept">
      {records.map((record, place) => (
        <li key={place}>
          <time dateTime={record.at}>{when(record.at)}</time>{" "}
          <Untrusted text={inWords(record).join("; ")} />
        </li>
      ))}
    </ul>
  );
}
