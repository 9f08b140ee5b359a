/** Whether the service can answer; looked at now and then, while anybody looks at the page. */

import { call, Trouble } from "../api/call";
import type { Ready } from "../api/types";
import { signal } from "./signal";

const EVERY_MS = 15_000;
const WHEN_AWAY_MS = 4_000;

export const ready = signal<Ready | null>(null);
export const away = signal<Trouble | null>(null);

/** Counts how often the service came back. */
export const revived = signal(0);

/** Looks again and again; the returned function stops that. */
export function watchPulse(): () => void {
  const look = async (): Promise<void> => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") await feel();
    clearTimeout(timer);
    timer = setTimeout(look, away.value ? WHEN_AWAY_MS : EVERY_MS);
  };
  lookNow = look;
  void look();
  return () => {
    lookNow = null;
    clearTimeout(timer);
  };
}

let timer = 0;
let lookNow: (() => Promise<void>) | null = null;

/** An answer that did not come says that the service may be away: looks at once. */
export function doubt(trouble: Trouble): void {
  if (trouble.status === 503 || trouble.kind !== "problem") void lookNow?.();
}

async function feel(): Promise<void> {
  try {
    ready.value = await call<Ready>("readyz", { timeoutMs: 5_000 });
    if (away.value !== null) revived.value += 1;
    away.value = null;
  } catch (error) {
    ready.value = null;
    away.value = error instanceof Trouble ? error : null;
  }
}
