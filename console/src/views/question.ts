/** A turn as it is typed, and as the address holds it. */

import type { Scope, Sensitivity } from "../api/types";
import type { Params } from "../state/place";

export interface Message {
  role: string;
  content: string;
}

export interface Question {
  text: string;
  history: readonly Message[];
  /** Names of files, by commas. */
  attachments: string;
  /** The ceilings: who asks, and where the answer goes. */
  caller: string;
  destination: string;
  k: string;
  budget: string;
}

/** The question that an address holds. */
export function fromParams(params: URLSearchParams): Question {
  const get = (name: string): string => params.get(name) ?? "";
  return {
    text: get("q"),
    history: params.getAll("said").map((line) => {
      const [role = "user", content = ""] = line.split(/:(.*)/s);
      return { role, content };
    }),
    attachments: get("files"),
    caller: get("caller"),
    destination: get("to"),
    k: get("k"),
    budget: get("budget"),
  };
}

export function toParams(question: Question): Params {
  return {
    q: question.text,
    said: question.history
      .filter((message) => message.content.trim())
      .map(({ role, content }) => `${role}:${content}`),
    files: question.attachments.trim(),
    caller: question.caller,
    to: question.destination,
    k: question.k,
    budget: question.budget,
  };
}

/** The scope that a question asks for beside the key's own. */
export function scopeOf(question: Question): Partial<Scope> | undefined {
  const { caller } = question;
  return caller ? { max_sensitivity: caller as Sensitivity } : undefined;
}

/** The body of a request for a decision. */
export function routeBody(question: Question): Record<string, unknown> {
  const files = question.attachments.split(",").map((name) => name.trim());
  const body: Record<string, unknown> = { text: question.text };
  if (question.history.length > 0) body["history"] = question.history;
  const names = files.filter(Boolean).map((name) => ({ name }));
  if (names.length > 0) body["attachments"] = names;
  const scope = scopeOf(question);
  if (scope) body["scope"] = scope;
  if (question.destination) body["max_sensitivity"] = question.destination;
  if (question.k) body["k"] = Number(question.k);
  if (question.budget) body["budget_ms"] = Number(question.budget);
  return body;
}

/** Whether anything beside the text is said. */
export function hasMore(question: Question): boolean {
  const { history, attachments, caller, destination, k, budget } = question;
  return history.length > 0 || [attachments, caller, destination, k, budget].some(Boolean);
}
