/** A decision as a page: route and context, tools, passages, time, feedback, JSON. */

import type { ComponentChildren, VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { Decision } from "../api/types";
import { ContextChips, MarkedText, Signals } from "../parts/context";
import { Feedback } from "../parts/feedback";
import { Json } from "../parts/json";
import { Collections, KnowledgeVerdict, Passages } from "../parts/passages";
import { RoutePicture } from "../parts/route";
import { Spelling } from "../parts/spelling";
import { Waterfall } from "../parts/stages";
import { ToolsPicture } from "../parts/tools";
import { Untrusted } from "../parts/untrusted";
import { draftOf } from "../state/draft";
import { percent, several } from "../words/figures";
import { agrees, rowsOf } from "../words/rows";
import { degradedWords, TOOL_VERDICTS } from "../words/stages";
import type { Outcome } from "./ask";

export function Answered({ outcome }: { outcome: Outcome }): VNode {
  const { text, decision, found } = outcome;
  const draft = draftOf(decision.id);
  return (
    <div class="answer">
      <Degraded names={decision.degraded} />
      <div class="band">
        <Part title="Route" class="part-route">
          <RoutePicture route={decision.route} draft={draft} />
        </Part>
        <Part title="Context" class="part-context">
          <MarkedText text={text} entities={decision.context.entities} />
          <ContextChips context={decision.context} degraded={decision.degraded} />
          <Signals signals={[...decision.context.signals, ...decision.signals]} />
        </Part>
      </div>
      <ToolsPart outcome={outcome} />
      <KnowledgePart decision={decision} />
      <div class="band">
        <Part title="Time">
          <Waterfall title="The decision" took={decision.took_ms} degraded={decision.degraded} />
          {found && (
            <Waterfall title="The explained search" took={found.took_ms} degraded={found.degraded} />
          )}
        </Part>
        <Part title="Feedback">
          <Feedback decision={decision.id} />
        </Part>
      </div>
      <Part title="JSON">
        <p class="note">
          Decision <code>{decision.id}</code>; at most {several(decision.max_tool_calls, "call")} of{" "}
          {several(decision.tool_timeout_s, "second")} should follow.
        </p>
        <Json value={decision} title="The decision as JSON" />
        {found && <Json value={found} title="The explained search as JSON" />}
      </Part>
    </div>
  );
}

interface PartProps {
  title: string;
  class?: string;
  children: ComponentChildren;
}

export function Part({ title, children, ...rest }: PartProps): VNode {
  return (
    <section class={`part ${rest.class ?? ""}`}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function Degraded({ names }: { names: readonly string[] }): VNode | null {
  if (names.length === 0) return null;
  return (
    <div class="warning">
      <b>Not everything was done.</b>
      <ul>
        {names.map((name) => (
          <li key={name}>
            <code>{name}</code> {degradedWords(name)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function ToolsPart({ outcome }: { outcome: Outcome }): VNode {
  const { decision, found, why } = outcome;
  const rows = useMemo(() => rowsOf(decision, found ?? undefined), [decision, found]);
  const draft = draftOf(decision.id);
  const unmatched = found?.unmatched_terms ?? [];
  return (
    <Part title="Tools">
      <ToolsVerdict decision={decision} />
      <Spelling words={found?.spelling ?? {}} />
      {unmatched.length > 0 && (
        <p class="note">
          In no tool:{" "}
          {unmatched.map((word) => (
            <span key={word} class="tag unmatched">
              <Untrusted text={word} />
            </span>
          ))}
        </p>
      )}
      {found && !agrees(decision, found) && (
        <p class="note">
          The scores below are those of a search by these words alone; the decision was made with
          more, and its probabilities differ.
        </p>
      )}
      {why && <p class="note">The search that explains the ranking failed: {why.message}</p>}
      {rows.length > 0 ? (
        <ToolsPicture rows={rows} draft={draft} />
      ) : (
        <p class="note">No tool is in reach.</p>
      )}
    </Part>
  );
}

function ToolsVerdict({ decision }: { decision: Decision }): VNode {
  const { verdict, confidence, threshold, reason, tools } = decision.tools;
  return (
    <p class="verdict-line">
      <span class={`tag verdict-${verdict}`}>{verdict}</span> {TOOL_VERDICTS[verdict]}
      {reason && (
        <>
          : <Untrusted text={reason} />
        </>
      )}
      .{" "}
      <span class="note">
        {several(tools.length, "tool")} given
        {confidence !== null && `, confidence ${percent(confidence)}`}
        {threshold !== null && `, threshold ${percent(threshold)}`}.
      </span>
    </p>
  );
}

function KnowledgePart({ decision }: { decision: Decision }): VNode {
  const { knowledge } = decision;
  const draft = draftOf(decision.id);
  return (
    <Part title="Passages">
      <KnowledgeVerdict knowledge={knowledge} />
      <div class="knowledge">
        <Collections collections={knowledge.collections} draft={draft} />
        {knowledge.passages.length > 0 && <Passages knowledge={knowledge} draft={draft} />}
      </div>
    </Part>
  );
}
