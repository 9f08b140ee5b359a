/** Who the reader is to the service. The key stays in this tab and is gone when it is closed. */

import { call, callAs, Trouble } from "../api/call";
import type { Me } from "../api/types";
import { keep, kept } from "./kept";
import { ADMIN_VIEWS, adjust, place, type View } from "./place";
import { doubt } from "./pulse";
import { limits } from "../words/limits";
import { computed, signal } from "./signal";

const KEY = "toolcrib.key";

export const key = signal(kept("session", KEY));
export const me = signal<Me | null>(null);
export const refusal = signal<Trouble | null>(null);

/** The namespace that is asked for; empty for the key's own. */
export const asked = computed(() => place.value.params.get("ns") ?? "");
export const mayWrite = computed(() => me.value !== null && me.value.access !== "read");
export const mayAdminister = computed(() => me.value?.access === "admin");

/** Whether the key may see anything in a view. */
export function isOffered(view: View): boolean {
  if (view === "learning") return mayWrite.value && limits(me.value?.scope ?? {}).length === 0;
  return mayAdminister.value || !ADMIN_VIEWS.has(view);
}

callAs(() => ({ key: key.value, namespace: asked.value }));

let latest = 0;

/** Asks the service who this is; what comes of it stands in `me` or `refusal`. */
export async function identify(): Promise<void> {
  const turn = ++latest;
  try {
    const found = await call<Me>("v1/me");
    if (turn === latest) [me.value, refusal.value] = [found, null];
  } catch (error) {
    if (turn === latest) refuse(error);
  }
}

/** Keeps a key for as long as the tab is open, and looks whose it is. */
export function useKey(text: string): Promise<void> {
  key.value = text.trim();
  keep("session", KEY, key.value);
  return identify();
}

/** Takes another key, or none, and forgets all that was seen with the one before. */
export function changeKey(text: string): void {
  keep("session", KEY, text.trim());
  location.reload();
}

/** Looks at another namespace; empty for the key's own. What was opened stays behind. */
export function chooseNamespace(name: string): void {
  const closed = Object.fromEntries([...place.value.params.keys()].map((each) => [each, undefined]));
  const q = place.value.params.get("q") ?? undefined;
  adjust({ ...closed, q, ns: name || undefined });
}

/** A key that stops to hold, or a service that goes away, while the page is open. */
export function heed(trouble: Trouble): void {
  if (trouble.status === 401) refuse(trouble);
  doubt(trouble);
}

function refuse(error: unknown): void {
  if (!(error instanceof Trouble)) throw error;
  me.value = null;
  refusal.value = error;
  doubt(error);
}
