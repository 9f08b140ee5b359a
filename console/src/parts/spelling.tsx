/** Misspelt words of a query, and the words that were searched for. */

import type { VNode } from "preact";
import { Untrusted } from "./untrusted";

export function Spelling({ words }: { words: Readonly<Record<string, string>> }): VNode | null {
  const pairs = Object.entries(words);
  if (pairs.length === 0) return null;
  return (
    <p class="note">
      Read as another word: <Untrusted text={pairs.map((pair) => pair.join(" as ")).join(", ")} />
    </p>
  );
}
