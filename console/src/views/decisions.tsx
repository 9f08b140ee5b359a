/** Recent decisions, newest first, as they come. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { DecisionRecord, RouteKind } from "../api/types";
import { ROUTES } from "../api/types";
import { Choice } from "../parts/choice";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { walk } from "../state/arrows";
import { adjust, link, place } from "../state/place";
import { type Recent, useRecent } from "../state/recent";
import { asked } from "../state/session";
import { millis, percent, several, when } from "../words/figures";
import { OneDecision } from "./decision";

const WITH_TOOLS: ReadonlySet<RouteKind> = new Set(["tools", "both", "general"]);

export function Decisions(): VNode {
  const id = place.value.params.get("decision");
  return id === null ? <Stream key={asked.value} /> : <OneDecision key={id} id={id} />;
}

function Stream(): VNode {
  const recent = useRecent();
  const [words, setWords] = useState("");
  const { params } = place.value;
  const route = params.get("route") ?? "";
  const verdict = params.get("verdict") ?? "";
  const shown = recent.records.filter(
    (record) =>
      (!route || record.route.kind === route) &&
      (!verdict || isOf(record, verdict)) &&
      (!words.trim() || holds(record, words)),
  );
  return (
    <>
      <h1>Decisions</h1>
      <Filters words={words} setWords={setWords} recent={recent} />
      {recent.trouble && <TroubleNote trouble={recent.trouble} again={recent.again} />}
      {!recent.known && !recent.trouble && <Waiting what="Reading" />}
      {recent.known && shown.length === 0 && <Nothing any={recent.records.length > 0} />}
      {shown.length > 0 && (
        <ul class="records" onKeyDown={walk} aria-label="Decisions, newest first">
          {shown.map((record) => (
            <Line key={record.id} record={record} />
          ))}
        </ul>
      )}
      {recent.more && (
        <p>
          <button type="button" onClick={recent.more}>
            Older ones
          </button>{" "}
          <small>{several(recent.records.length, "decision")} read; filters look at these</small>
        </p>
      )}
    </>
  );
}

interface FiltersProps {
  words: string;
  setWords: (words: string) => void;
  recent: Recent;
}

function Filters({ words, setWords, recent }: FiltersProps): VNode {
  const { params } = place.value;
  return (
    <div class="filters">
      <label class="field">
        Holds
        <input
          type="search"
          data-question
          placeholder="a tool, a collection, a word"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </label>
      <Choice
        label="Route"
        value={params.get("route") ?? ""}
        options={ROUTES}
        none="all"
        set={(route) => adjust({ route }, true)}
      />
      <Choice
        label="Tools"
        value={params.get("verdict") ?? ""}
        options={["accept", "fallback", "abstain", "degraded"]}
        none="all"
        set={(verdict) => adjust({ verdict }, true)}
      />
      <Live recent={recent} />
    </div>
  );
}

function Nothing({ any }: { any: boolean }): VNode {
  return (
    <p class="calm">
      {any ? "None of those that were read is like this." : "Nothing has been decided yet."}
    </p>
  );
}

function Live({ recent }: { recent: Recent }): VNode {
  return (
    <label class="live">
      <input
        type="checkbox"
        checked={recent.live}
        onChange={(event) => recent.setLive(event.currentTarget.checked)}
      />
      <span>live</span>
      <span class={recent.live && !recent.trouble ? "dot on" : "dot"} aria-hidden="true" />
    </label>
  );
}

function Line({ record }: { record: DecisionRecord }): VNode {
  const text = record.text?.turn;
  return (
    <li>
      <a class="record" data-stop href={link("decisions", { decision: record.id })}>
        <time dateTime={record.at}>{when(record.at)}</time>
        <b class="record-route">{record.route.kind}</b>
        <span class="record-what">
          {text !== undefined && (
            <span class="record-text">
              <Untrusted text={text} />
            </span>
          )}
          <small>
            <Untrusted text={inShort(record)} />
          </small>
        </span>
        <span class="record-tags">
          {record.tools.verdict !== "accept" && WITH_TOOLS.has(record.route.kind) && (
            <span class="tag">{record.tools.verdict}</span>
          )}
          {record.degraded.length > 0 && <span class="tag severity-warning">degraded</span>}
        </span>
        <span class="figure sure-of">{percent(record.route.confidence)}</span>
        <span class="figure took">{millis(record.took_ms["total"] ?? 0)}</span>
      </a>
    </li>
  );
}

/** What was given: the tools that were found, and where the passages come from. */
function inShort({ tools, knowledge }: DecisionRecord): string {
  const found = tools.items.filter((item) => item.probability !== null);
  const [first] = found.length > 0 ? found : tools.items;
  const rest = tools.items.length - 1;
  const parts = first ? [rest > 0 ? `${first.id} and ${rest} more` : first.id] : [];
  const passages = knowledge.passages.length;
  const from = knowledge.collections[0]?.id ?? "";
  if (passages > 0) parts.unshift(`${several(passages, "passage")}, mostly of ${from}`);
  return parts.join("; ") || "nothing was given";
}

function isOf(record: DecisionRecord, verdict: string): boolean {
  return verdict === "degraded" ? record.degraded.length > 0 : record.tools.verdict === verdict;
}

/** Whether words are in the turn or in the ids of what it got: figures and times would hold any number. */
function holds({ text, tools, knowledge }: DecisionRecord, words: string): boolean {
  const got = [...tools.items, ...knowledge.collections, ...knowledge.passages];
  const all = [text?.turn, ...got.map(({ id }) => id)].join("\n").toLowerCase();
  return words.toLowerCase().trim().split(/\s+/).every((word) => all.includes(word));
}
