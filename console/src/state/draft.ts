/** What a reader says of a decision, until it is sent. */

import type { FeedbackFields, RouteKind } from "../api/types";
import { type Signal, signal } from "./signal";

export interface Draft {
  route?: RouteKind | undefined;
  /** Marks by id: right or wrong. */
  tools: Readonly<Record<string, boolean>>;
  /** Tools that should have come and did not. */
  missing: readonly string[];
  collections: Readonly<Record<string, boolean>>;
  intent?: string | undefined;
  domain?: string | undefined;
  outcome?: "success" | "failure" | undefined;
  note: string;
}

const EMPTY: Draft = { tools: {}, missing: [], collections: {}, note: "" };
const drafts = new Map<string, Signal<Draft>>();

/** The draft about a decision; one that nothing was said in is empty. */
export function draftOf(decision: string): Signal<Draft> {
  let draft = drafts.get(decision);
  if (draft === undefined) drafts.set(decision, (draft = signal(EMPTY)));
  return draft;
}

/** Forgets what was said of a decision. */
export function clear(decision: string): void {
  draftOf(decision).value = EMPTY;
}

/** Marks one thing right or wrong; the same mark twice takes it away. */
export function mark(
  draft: Signal<Draft>,
  what: "tools" | "collections",
  id: string,
  right: boolean,
): void {
  const { [id]: before, ...others } = draft.value[what];
  draft.value = { ...draft.value, [what]: before === right ? others : { ...others, [id]: right } };
}

/** The draft as the service takes it: all that is right, whatever was wrong. Null for nothing. */
export function asFeedback(draft: Draft): FeedbackFields | null {
  const said: FeedbackFields = {};
  if (draft.route) said.route = draft.route;
  const tools = [...right(draft.tools), ...draft.missing];
  if (tools.length > 0 || Object.keys(draft.tools).length > 0) said.tools = tools;
  if (Object.keys(draft.collections).length > 0) said.collections = right(draft.collections);
  if (draft.intent !== undefined) said.intent = draft.intent.trim();
  if (draft.domain !== undefined) said.domain = draft.domain.trim();
  if (draft.outcome) said.outcome = draft.outcome;
  if (draft.note.trim()) said.note = draft.note.trim();
  return Object.keys(said).length > 0 ? said : null;
}

/** Feedback in words, a line a field. */
export function inWords(said: FeedbackFields): string[] {
  const all = (ids: readonly string[]): string => ids.join(", ") || "none of all that there are";
  const lines: string[] = [];
  if (said.route) lines.push(`right route: ${said.route}`);
  if (said.tools) lines.push(`right tools: ${all(said.tools)}`);
  if (said.collections) lines.push(`right collections: ${all(said.collections)}`);
  if (said.intent !== undefined) lines.push(`right intent: ${said.intent || "none"}`);
  if (said.domain !== undefined) lines.push(`right domain: ${said.domain || "none"}`);
  if (said.outcome) lines.push(`outcome: ${said.outcome}`);
  if (said.note) lines.push(`note: ${said.note}`);
  return lines;
}

function right(marks: Readonly<Record<string, boolean>>): string[] {
  return Object.keys(marks).filter((id) => marks[id]);
}
