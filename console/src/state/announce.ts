/** What is read out to those who do not see that something has changed. */

import { signal } from "./signal";

export const announced = signal("");

/** Says a sentence; the same one twice is said twice. */
export function announce(sentence: string): void {
  announced.value = announced.value === sentence ? `${sentence}\u00a0` : sentence;
}
