/** A turn in, and everything that was decided for it. */

import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { call, type Trouble } from "../api/call";
import type { Decision, Found, Spec } from "../api/types";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { asTrouble, useAnswer } from "../state/answers";
import { walk } from "../state/arrows";
import { go, place } from "../state/place";
import { asked, key } from "../state/session";
import { firstLine, several } from "../words/figures";
import { searchedWith } from "../words/rows";
import { Answered } from "./answer";
import { AskForm } from "./ask-form";
import { EmptyIndex } from "./empty";
import { fromParams, type Question, routeBody, scopeOf, toParams } from "./question";

/** How many tools the explained search shows at least. */
const DEPTH = 10;

export interface Outcome {
  text: string;
  decision: Decision;
  /** The search that explains the ranking; null where it failed. */
  found: Found | null;
  why: Trouble | null;
}

/** Answers that were seen, so that a step back does not ask, and log, once more. */
const seen = new Map<string, Outcome>();
const REMEMBERED = 30;

export function Ask(): VNode {
  const question = fromParams(place.value.params);
  const about = identity(question);
  const { value, trouble, waiting, again } = useAnswer(
    question.text.trim() ? (signal) => decide(question, about, signal) : null,
    [about],
  );
  const empty = useAnswer(isEmpty, [asked.value]).value === true;
  useEffect(() => {
    if (value) announce(inShort(value));
  }, [value]);
  const ask = (next: Question): void => {
    if (identity(next) === about) {
      seen.delete(about);
      again();
    } else go("ask", toParams(next));
  };
  return (
    <>
      <h1 class="unseen">Ask</h1>
      <AskForm question={question} busy={waiting} ask={ask} />
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {empty && <EmptyIndex />}
      {waiting && value === undefined && <Waiting what="Deciding" />}
      {value && (
        <div class={waiting ? "stale" : ""} aria-busy={waiting}>
          <Answered outcome={value} key={value.decision.id} />
        </div>
      )}
      {!question.text.trim() && !empty && <Suggestions />}
    </>
  );
}

/** Whether there is no tool at all; counting them would read them all. */
async function isEmpty(signal: AbortSignal): Promise<boolean> {
  const query = new URLSearchParams({ limit: "1" });
  const page = await call<{ tools: Spec[] }>("v1/tools", { query, signal });
  return page.tools.length === 0;
}

/** What an answer depends on, as far as the page knows. */
function identity(question: Question): string {
  return JSON.stringify([key.value, asked.value, question]);
}

async function decide(question: Question, about: string, signal: AbortSignal): Promise<Outcome> {
  const known = seen.get(about);
  if (known) return known;
  const body = routeBody(question);
  const decision = await call<Decision>("v1/route", { method: "POST", body, signal });
  const outcome = { text: question.text, decision, ...(await explain(question, decision, signal)) };
  seen.set(about, outcome);
  const oldest = seen.keys().next().value;
  if (seen.size > REMEMBERED && oldest !== undefined) seen.delete(oldest);
  return outcome;
}

/** The ranking with all its legs; without it the decision still stands. */
async function explain(
  question: Question,
  decision: Decision,
  signal: AbortSignal,
): Promise<Pick<Outcome, "found" | "why">> {
  const said = question.history.filter((each) => each.role === "user" && each.content.trim());
  const query = searchedWith(
    question.text,
    said.map((each) => each.content),
    decision.signals,
  );
  const k = Math.max(DEPTH, Number(question.k) || 0);
  const body = { query, k, gate: false, explain: true, scope: scopeOf(question) };
  try {
    const found = await call<Found>("v1/tools/search", { method: "POST", body, signal });
    return { found, why: null };
  } catch (error) {
    if (signal.aborted) throw error;
    return { found: null, why: asTrouble(error) };
  }
}

function inShort({ decision }: Outcome): string {
  const tools = several(decision.tools.tools.length, "tool");
  const passages = several(decision.knowledge.passages.length, "passage");
  return `Route ${decision.route.kind}, ${tools}, ${passages}.`;
}

const SMALLTALK = "good morning!";

/** Example requests of the registry's own tools, one a tool, or else what the tools are for. */
function examplesOf(tools: readonly Spec[]): string[] {
  const texts = tools.map((tool) => tool.success_examples[0] ?? firstLine(tool.description));
  return [...new Set(texts.filter(Boolean))].slice(0, 3);
}

function Suggestions(): VNode {
  const { value } = useAnswer(
    (signal) => call<{ tools: Spec[] }>("v1/tools", { query: new URLSearchParams({ limit: "20" }), signal }),
    [asked.value],
  );
  return (
    <section class="suggestions">
      <p class="lede">
        Type what a user would say. You see what kind of turn it is, where it goes, which tools and
        passages an agent would get, how sure that is, and why.
      </p>
      <p>
        <span class="label">for example</span>
      </p>
      <ul onKeyDown={walk}>
        {[...examplesOf(value?.tools ?? []), SMALLTALK].map((text) => (
          <li key={text}>
            <button type="button" class="example" data-stop onClick={() => go("ask", { q: text })}>
              <Untrusted text={text} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
