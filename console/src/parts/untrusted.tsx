/** Text that somebody else wrote: shown as it is, with what would be invisible made visible. */

import type { VNode } from "preact";
import { reveal } from "../words/hidden";

/** The text in one line or with its own lines; it cannot turn the direction of its neighbours. */
export function Untrusted({ text }: { text: string }): VNode {
  return (
    <bdi>
      {reveal(text).map((piece, place) =>
        typeof piece === "string" ? (
          piece
        ) : (
          <span key={place} class="hidden-char" title={piece.title}>
            {piece.label}
          </span>
        ),
      )}
    </bdi>
  );
}
