/** A decision's tools and the explained search beside it, as one ranking. */

import type { Decision, Found, Hit } from "../api/types";
import { ruleOf } from "./stages";

export interface Row {
  hit: Hit;
  /** Its place in the search, from 1; null for what the search did not find. */
  rank: number | null;
  /** Whether the decision gave it to the agent. */
  given: boolean;
  /** Why it is there, where that is not for its rank. */
  rule: string;
}

/** What came by rule first, then by rank, the general tool last; also what was not given. */
export function rowsOf(decision: Decision, found: Found | undefined): Row[] {
  const explained = new Map((found?.tools ?? []).map((hit) => [hit.id, hit]));
  const given = new Map(decision.tools.tools.map((hit) => [hit.id, hit]));
  const rows: Row[] = [];
  for (const hit of decision.tools.tools) {
    const rule = ruleOf(hit.legs);
    if (!explained.has(hit.id)) rows.push({ hit, rank: null, given: true, rule });
  }
  for (const hit of explained.values()) {
    const rule = ruleOf(given.get(hit.id)?.legs);
    rows.push({ hit, rank: hit.rank, given: given.has(hit.id), rule });
  }
  const first = ({ rule, hit }: Row): number =>
    rule && !explained.has(hit.id) && !("fallback" in (hit.legs ?? {})) ? 0 : 1;
  return rows.sort((a, b) => first(a) - first(b) || b.hit.score - a.hit.score);
}

/** Whether the search found what the decision had, with the same probabilities. */
export function agrees(decision: Decision, found: Found): boolean {
  const explained = new Map(found.tools.map((hit) => [hit.id, hit.probability]));
  return decision.tools.tools.every((hit) => {
    const other = explained.get(hit.id);
    if (ruleOf(hit.legs) || other === undefined) return true;
    return Math.abs((hit.probability ?? 0) - (other ?? 0)) < 0.005;
  });
}

/** What the decision was searched with, as far as its signals tell: joined with what was said. */
export function searchedWith(text: string, said: readonly string[], signals: readonly string[]): string {
  const back = signals.map((signal) => /^follow-up:(\d+)$/.exec(signal)?.[1]).find(Boolean);
  const ground = back === undefined ? undefined : said.at(-Number(back));
  return ground === undefined ? text : `${ground.slice(0, 400).split(/\s+/).join(" ")}\n${text}`;
}
