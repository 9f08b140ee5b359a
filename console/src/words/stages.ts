/** What the short words of the service mean. */

import type { RouteKind, Verdict } from "../api/types";

export const ROUTE_WORDS: Readonly<Record<RouteKind, string>> = {
  tools: "a tool does it",
  knowledge: "something written answers it",
  both: "it needs tools and passages",
  none: "nothing is looked up",
  general: "nothing here fits",
};

export const TOOL_VERDICTS: Readonly<Record<Verdict, string>> = {
  accept: "The ranking fits",
  fallback: "Perhaps nothing fits, so the general tool comes too",
  abstain: "Perhaps nothing fits",
};

export const PASSAGE_VERDICTS: Readonly<Record<Verdict, string>> = {
  accept: "A collection fits",
  fallback: "General collections were asked instead",
  abstain: "No passages are given",
};

const STAGES: Readonly<Record<string, string>> = {
  follow_up: "what the turn leans on",
  encode: "the text made a vector, once",
  context: "intent, domain, urgency, sensitivity, entities",
  entities: "typed spans of the text",
  tools: "tools searched, ranked, chosen",
  knowledge: "collections and passages searched",
  legs: "the index asked by words and by meaning",
  fusion: "the legs' scores made one",
  fetch: "the specifications read",
  rerank: "the first ones looked at again",
  interleave: "a second ranking, to compare",
  agents: "the agent that the turn is for",
  llm: "a language model asked",
  gate: "probability and threshold",
};

const DEGRADED: Readonly<Record<string, string>> = {
  dense: "the encoder failed; words alone have answered",
  rerank: "the reranker was left out or failed; the first ranking stands",
  interleave: "no second ranking was compared, for lack of time",
  "rerank-late": "the reranker ran out of time; the rest stands as it was",
  llm: "the language model was not asked, for lack of time",
  "context-llm": "the language model failed; the classifier's context stands",
  "context-llm-late": "the language model ran out of time; the classifier's context stands",
  "conversation-llm": "the language model failed; the rules read the conversation",
  "conversation-llm-late": "the language model ran out of time; the rules read the conversation",
  agents: "the language model chose no agent; the rules did",
  "agents-ensemble": "some prompts of the language model failed; the others decided",
  probes: "facts about the turn were not looked for, for lack of time",
  entities: "left out for lack of time",
  follow_up: "the history was left out",
  context: "not read, for lack of time",
  knowledge: "not looked for, or their store failed",
  tools: "not looked for, for lack of time",
  coverage: "so much completeness cannot be promised",
  "query-cut": "the query was cut, as it is very long",
  "no-words": "there is no word in it",
};

const RULES: Readonly<Record<string, string>> = {
  always_active: "always active",
  required: "required by another",
  pass_through: "passed through: a small registry",
  kept: "kept from an earlier turn",
  fallback: "the general tool",
};

export function stageWords(stage: string): string {
  return STAGES[stage] ?? "";
}

export function degradedWords(name: string): string {
  return DEGRADED[name] ?? "left out";
}

/** Why a tool is there, if that is not for its rank. */
export function ruleOf(legs: Readonly<Record<string, number>> | undefined): string {
  const rule = Object.keys(legs ?? {}).find((leg) => leg in RULES);
  return rule === undefined ? "" : (RULES[rule] ?? "");
}
