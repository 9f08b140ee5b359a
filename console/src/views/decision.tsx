/** One logged decision: what was decided, what was said of it, and what would be decided now. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call";
import type { DecisionPage, DecisionRecord, OutcomeRecord } from "../api/types";
import { ContextChips, Signals } from "../parts/context";
import { Feedback } from "../parts/feedback";
import { Json } from "../parts/json";
import { Judge } from "../parts/judge";
import { Collections } from "../parts/passages";
import { RoutePicture } from "../parts/route";
import { Waterfall } from "../parts/stages";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { useAnswer } from "../state/answers";
import { walk } from "../state/arrows";
import { draftOf } from "../state/draft";
import { adjust, link } from "../state/place";
import { asked } from "../state/session";
import { onEscape } from "../state/shortcuts";
import { percent, score, when } from "../words/figures";
import { Degraded, Part } from "./answer";
import { Replay } from "./replay";

const back = (): void => adjust({ decision: undefined });

export function OneDecision({ id }: { id: string }): VNode {
  const { value, trouble, again } = useAnswer(
    (signal) => call<DecisionPage>(`v1/decisions/${encodeURIComponent(id)}`, { signal }),
    [asked.value, id],
  );
  useEffect(() => onEscape(back), []);
  return (
    <article>
      <p>
        <button type="button" class="quiet back" onClick={back}>
          ← Decisions
        </button>
      </p>
      <h1>Decision {value && <small>{when(value.decision.at)}</small>}</h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && <Sheet page={value} />}
    </article>
  );
}

function Sheet({ page }: { page: DecisionPage }): VNode {
  const { decision, feedback, outcomes } = page;
  const draft = draftOf(decision.id);
  const reason = decision.text?.reasons["route"];
  const route = { ...decision.route, ...(reason ? { reason } : {}) };
  return (
    <div class="answer">
      <Words record={decision} />
      <Degraded names={decision.degraded} />
      <div class="band">
        <Part title="Route" class="part-route">
          <RoutePicture route={route} draft={draft} />
        </Part>
        <Part title="Context" class="part-context">
          <ContextChips context={decision.context} degraded={decision.degraded} />
          <Signals signals={decision.signals} />
        </Part>
      </div>
      <div class="band">
        <Part title="Tools">
          <Given record={decision} outcomes={outcomes} />
        </Part>
        <Part title="Passages">
          <Collections collections={decision.knowledge.collections} draft={draft} />
          <GivenPassages record={decision} />
        </Part>
      </div>
      <div class="band">
        <Part title="Time">
          <Waterfall title="The decision" took={decision.took_ms} degraded={decision.degraded} />
        </Part>
        <Part title="Feedback">
          <Feedback decision={decision.id} before={feedback} />
        </Part>
      </div>
      <Part title="JSON">
        <Json value={page} title="The record as JSON" />
      </Part>
    </div>
  );
}

/** What was said, and a way to decide it again; where the words are kept. */
function Words({ record }: { record: DecisionRecord }): VNode {
  const [replaying, setReplaying] = useState(false);
  const text = record.text?.turn;
  if (text === undefined) {
    return (
      <p class="note">
        The service keeps no words of users, so the turn cannot be shown or decided again. The
        setting <code>telemetry.text: true</code> would keep them.
      </p>
    );
  }
  return (
    <>
      <p class="turn-text">
        <Untrusted text={text} />
      </p>
      <p class="row">
        <button type="button" onClick={() => setReplaying(true)} disabled={replaying}>
          Decide it again
        </button>
        <a href={link("ask", { q: text })}>Open in Ask</a>
      </p>
      {replaying && <Replay record={record} text={text} />}
    </>
  );
}

function Given(props: { record: DecisionRecord; outcomes: readonly OutcomeRecord[] }): VNode {
  const { record, outcomes } = props;
  const draft = draftOf(record.id);
  const { items, verdict, threshold, confidence } = record.tools;
  const last = new Map(outcomes.map((each) => [each.tool, each]));
  return (
    <>
      <p class="verdict-line">
        <span class={`tag verdict-${verdict}`}>{verdict}</span>{" "}
        <span class="note">
          confidence {percent(confidence)}, threshold {percent(threshold)}
        </span>
      </p>
      <ol class="given-list" onKeyDown={walk}>
        {items.map((item) => (
          <li key={item.id}>
            <a data-stop href={link("registry", { tool: item.id })}>
              <Untrusted text={item.id} />
            </a>
            <Called outcome={last.get(item.id)} />
            <span class="figure" title={`score ${score(item.score)}`}>
              {percent(item.probability)}
            </span>
            <Judge draft={draft} what="tools" id={item.id} name={item.id} />
          </li>
        ))}
      </ol>
      {items.length === 0 && <p class="note">No tool was given.</p>}
    </>
  );
}

function Called({ outcome }: { outcome: OutcomeRecord | undefined }): VNode | null {
  if (outcome === undefined) return null;
  const failed = outcome.outcome === "failure";
  return (
    <span class={failed ? "tag severity-block" : "tag given"}>
      call: {outcome.outcome}
      {outcome.took_ms !== undefined && `, ${Math.round(outcome.took_ms)} ms`}
    </span>
  );
}

function GivenPassages({ record }: { record: DecisionRecord }): VNode {
  const { passages } = record.knowledge;
  if (passages.length === 0) return <p class="note">No passage was given.</p>;
  return (
    <ol class="given-list">
      {passages.map((passage) => (
        <li key={passage.id}>
          <span>
            <Untrusted text={passage.id} />
          </span>
          <span class="figure">{score(passage.score)}</span>
        </li>
      ))}
    </ol>
  );
}
