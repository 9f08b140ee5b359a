/** What stands where an answer will come; it appears late, so that fast answers do not flicker. */

import type { VNode } from "preact";

export function Waiting({ what }: { what: string }): VNode {
  return <p class="waiting">{what} …</p>;
}
