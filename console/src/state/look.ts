/** Light, dark, or as the system is. */

import { keep, kept } from "./kept";
import { signal } from "./signal";

export type Look = "system" | "light" | "dark";
export const LOOKS: readonly Look[] = ["system", "light", "dark"];

const NAME = "toolcrib.look";

export const look = signal<Look>(LOOKS.find((each) => each === kept("local", NAME)) ?? "system");

/** Wears a look, now and next time. */
export function wear(chosen: Look): void {
  look.value = chosen;
  keep("local", NAME, chosen === "system" ? "" : chosen);
  if (chosen === "system") delete document.documentElement.dataset["look"];
  else document.documentElement.dataset["look"] = chosen;
}
