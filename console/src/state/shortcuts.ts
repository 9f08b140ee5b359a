/** Keys that work anywhere on the page, unless somebody is writing; they can be switched off. */

import { keep, kept } from "./kept";
import { go, VIEWS } from "./place";
import { signal } from "./signal";

const NAME = "toolcrib.shortcuts";

export const shortcuts = signal(kept("local", NAME) !== "off");
export const helpOpen = signal(false);

/** Switches keys without a modifier on or off; Escape and the arrows always work. */
export function allowShortcuts(on: boolean): void {
  shortcuts.value = on;
  keep("local", NAME, on ? "" : "off");
}

const backs: (() => void)[] = [];

/** What Escape does until the returned function is called. */
export function onEscape(back: () => void): () => void {
  backs.push(back);
  return () => {
    backs.splice(backs.indexOf(back), 1);
  };
}

/** Hears every key; the returned function stops that. */
export function listen(): () => void {
  document.addEventListener("keydown", hear);
  return () => document.removeEventListener("keydown", hear);
}

function hear(event: KeyboardEvent): void {
  const busy = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey;
  if (busy || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") escape(event);
  else if (!isWriting(event.target) && shortcuts.value) press(event);
}

function escape(event: KeyboardEvent): void {
  if (isWriting(event.target)) (event.target as HTMLElement).blur();
  else backs.at(-1)?.();
}

function press(event: KeyboardEvent): void {
  const view = VIEWS[Number(event.key) - 1];
  if (event.key === "/") {
    const question = document.querySelector<HTMLInputElement>("[data-question]");
    question?.focus();
    question?.select();
  } else if (event.key === "?") helpOpen.value = true;
  else if (view) go(view);
  else return;
  event.preventDefault();
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input:not([type=checkbox]), textarea, select");
}
