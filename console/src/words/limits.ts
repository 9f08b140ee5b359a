/** What a key is held to, in words. */

import type { Grant, Scope } from "../api/types";

/** Pairs of a limit's name and value; none where there is no limit. */
export function limits(of: Partial<Scope & Grant>): [string, string][] {
  const lists = ["servers", "tags", "categories", "collections"] as const;
  const found: [string, string][] = [];
  for (const name of lists) {
    const values = of[name];
    if (values) found.push([`${name} only`, values.join(", ") || "none"]);
  }
  if (of.max_sensitivity) found.push(["sensitivity up to", of.max_sensitivity]);
  if (of.rate) found.push(["rate", of.rate]);
  if (of.profile) found.push(["profile", of.profile]);
  return found;
}
