/** Where a turn is typed. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { SENSITIVITIES } from "../api/types";
import { Choice } from "../parts/choice";
import { toResults } from "../state/arrows";
import { hasMore, type Message, type Question } from "./question";

interface Props {
  question: Question;
  busy: boolean;
  ask: (question: Question) => void;
}

export function AskForm({ question, busy, ask }: Props): VNode {
  const [draft, setDraft] = useState(question);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => setDraft(question), [JSON.stringify(question)]);
  useEffect(() => grow(field.current), [draft.text]);
  const set = (changes: Partial<Question>): void => setDraft({ ...draft, ...changes });
  const send = (event: Event): void => {
    event.preventDefault();
    if (draft.text.trim()) ask(draft);
    else field.current?.focus();
  };
  const press = (event: KeyboardEvent): void => {
    const plain = !event.shiftKey && !event.isComposing;
    if (event.key === "Enter" && plain) send(event);
    else toResults(event);
  };
  return (
    <form class="ask" onSubmit={send}>
      <label class="unseen" for="turn">
        What does the user say?
      </label>
      <div class="question">
        <textarea
          id="turn"
          ref={field}
          rows={1}
          data-question
          placeholder="What does the user say?"
          value={draft.text}
          onInput={(event) => set({ text: event.currentTarget.value })}
          onKeyDown={press}
        />
        <button type="submit" class="strong" disabled={busy}>
          {busy ? "Asking …" : "Ask"}
        </button>
      </div>
      <details class="more" open={hasMore(question)}>
        <summary>History, attachments, ceilings</summary>
        <div class="more-fields">
          <History history={draft.history} set={(history) => set({ history })} />
          <Around draft={draft} set={set} />
        </div>
      </details>
    </form>
  );
}

/** A field as high as its text, up to some lines. */
function grow(field: HTMLTextAreaElement | null): void {
  if (field === null) return;
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, 220)}px`;
}

interface HistoryProps {
  history: readonly Message[];
  set: (history: readonly Message[]) => void;
}

function History({ history, set }: HistoryProps): VNode {
  const change = (place: number, changes: Partial<Message>): void =>
    set(history.map((each, at) => (at === place ? { ...each, ...changes } : each)));
  const next = history.at(-1)?.role === "user" ? "assistant" : "user";
  return (
    <fieldset>
      <legend>Said before, oldest first</legend>
      {history.map((message, place) => (
        <div class="message" key={place}>
          <select
            aria-label={`Who said message ${place + 1}`}
            value={message.role}
            onChange={(event) => change(place, { role: event.currentTarget.value })}
          >
            <option value="user">user</option>
            <option value="assistant">assistant</option>
          </select>
          <input
            aria-label={`Message ${place + 1}`}
            value={message.content}
            onInput={(event) => change(place, { content: event.currentTarget.value })}
          />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove message ${place + 1}`}
            onClick={() => set(history.filter((_, at) => at !== place))}
          >
            ×
          </button>
        </div>
      ))}
      <button type="button" onClick={() => set([...history, { role: next, content: "" }])}>
        Add a message
      </button>
    </fieldset>
  );
}

interface AroundProps {
  draft: Question;
  set: (changes: Partial<Question>) => void;
}

function Around({ draft, set }: AroundProps): VNode {
  return (
    <fieldset class="around">
      <legend>Around it</legend>
      <label class="field wide">
        Attachments <small>names of files, with commas</small>
        <input
          value={draft.attachments}
          placeholder="report.csv, photo.png"
          onInput={(event) => set({ attachments: event.currentTarget.value })}
        />
      </label>
      <Choice
        label="Ceiling of who asks"
        value={draft.caller}
        options={SENSITIVITIES}
        none="none"
        set={(caller) => set({ caller })}
      />
      <Choice
        label="Ceiling of where it goes"
        value={draft.destination}
        options={SENSITIVITIES}
        none="none"
        set={(destination) => set({ destination })}
      />
      <label class="field">
        Tools
        <input
          type="number"
          min={1}
          max={50}
          value={draft.k}
          placeholder="as set"
          onInput={(event) => set({ k: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        Budget, ms
        <input
          type="number"
          min={1}
          value={draft.budget}
          placeholder="as set"
          onInput={(event) => set({ budget: event.currentTarget.value })}
        />
      </label>
    </fieldset>
  );
}
