/** A tool's score taken apart into what every leg gave to it or took from it.

The service tells what each leg said, not how it was weighed; the weights here are those that
ship. Where they do not add up to the score, others are in use, and the score stays whole. */

import type { Hit, Legs } from "../api/types";
import weights from "./fusion.json";

export type Leg =
  | "dense"
  | "clauses"
  | "examples"
  | "head"
  | "lexical"
  | "learned"
  | "rerank"
  | "exact_name"
  | "anti_patterns"
  | "whole"
  | "taken";

export interface Share {
  leg: Leg;
  /** What it adds to the score; below zero for what it takes off. */
  value: number;
}

export const LEGS: readonly Leg[] = [
  "dense",
  "clauses",
  "examples",
  "head",
  "lexical",
  "learned",
  "rerank",
  "exact_name",
  "whole",
  "taken",
];

export const LEG_WORDS: Readonly<Record<Leg, { name: string; about: string }>> = {
  dense: { name: "meaning", about: "cosine of the whole query" },
  clauses: { name: "best clause", about: "cosine of the best clause, and what a new clause adds" },
  examples: { name: "examples", about: "cosine of the nearest success example" },
  head: { name: "head", about: "log-probability of the classifier over examples" },
  lexical: { name: "words", about: "BM25" },
  learned: { name: "learned", about: "what requests that ended in a call of it add" },
  rerank: { name: "reranker", about: "the reranker's own score" },
  exact_name: { name: "called by name", about: "the query has the tool's exact name" },
  anti_patterns: { name: "anti-patterns", about: "cosine of the nearest anti-pattern" },
  whole: { name: "score", about: "other weights are in use: not taken apart" },
  taken: { name: "taken off", about: "by an anti-pattern, or by clauses that fit less well" },
};

const CLOSE = 0.003;

/** The shares of a score, best understood first; their sum is the score. */
export function shares(hit: Pick<Hit, "score" | "legs">): Share[] {
  const legs = hit.legs ?? {};
  if ("exact_name" in legs) return [{ leg: "exact_name", value: hit.score }];
  if (!("dense" in legs)) return whole(hit.score);
  const found = reranked(legs, firstStage(legs));
  const sum = found.reduce((total, share) => total + share.value, 0);
  const fits = Math.abs(Math.min(1, Math.max(0, sum)) - hit.score) < CLOSE;
  return fits ? found.filter((share) => Math.abs(share.value) > 1e-6) : whole(hit.score);
}

/** What a picture of these needs a legend for: whatever takes off is drawn alike. */
export function legend(all: readonly Share[][]): Leg[] {
  const seen = new Set(all.flat().map(({ leg, value }) => (value < 0 ? "taken" : leg)));
  return LEGS.filter((leg) => seen.has(leg));
}

function whole(score: number): Share[] {
  return score > 0 ? [{ leg: "whole", value: score }] : [];
}

function firstStage(legs: Legs): Share[] {
  const total = weights.dense + weights.lexical;
  const meaning = weights.dense / total;
  const said = (leg: Leg): number | undefined => legs[leg];
  const own = said("dense") ?? 0;
  const clause = said("clauses");
  let best = clause === undefined ? own : own + weights.clauses * (clause - own);
  const found: Share[] = [{ leg: "dense", value: meaning * own }];
  found.push({ leg: "clauses", value: meaning * (best - own) + (legs["clause_gain"] ?? 0) });
  const example = said("examples");
  if (example !== undefined && example > best) {
    const share = said("head") === undefined ? weights.examples : 1;
    found.push({ leg: "examples", value: meaning * share * (example - best) });
    best = example;
  }
  found.push({ leg: "head", value: meaning * weights.head * (said("head") ?? 0) });
  const words = 1 - Math.exp(-(said("lexical") ?? 0) / weights.bm25_scale);
  found.push({ leg: "lexical", value: (weights.lexical / total) * words });
  const against = said("anti_patterns") ?? -1;
  const less = Math.max(0, against - best);
  found.push({ leg: "anti_patterns", value: -meaning * weights.anti_patterns * less });
  found.push({ leg: "learned", value: said("learned") ?? 0 });
  return found;
}

function reranked(legs: Legs, first: Share[]): Share[] {
  const second = legs["rerank"];
  if (second === undefined) return first;
  const kept = first.map(({ leg, value }) => ({ leg, value: (1 - weights.rerank) * value }));
  return [...kept, { leg: "rerank", value: weights.rerank / (1 + Math.exp(-second)) }];
}
