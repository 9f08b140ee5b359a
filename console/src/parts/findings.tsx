/** What an audit noticed: how bad, where, in which words, and why that matters. */

import type { VNode } from "preact";
import type { Finding, Spec } from "../api/types";
import { Untrusted } from "./untrusted";

export function Findings({ findings, spec }: { findings: readonly Finding[]; spec: Spec }): VNode {
  if (findings.length === 0) return <p class="note">The audit found nothing in its text.</p>;
  return (
    <ul class="findings" aria-label="Findings">
      {findings.map((finding, place) => (
        <li key={place}>
          <p>
            <span class={`tag severity-${finding.severity}`}>{finding.severity}</span>{" "}
            <b>{finding.rule}</b>{" "}
            <span class="note">
              in <Untrusted text={finding.place} />
            </span>
          </p>
          <blockquote>
            <Marked text={textAt(spec, finding.place)} excerpt={finding.excerpt} />
          </blockquote>
          <p class="note">
            <Untrusted text={finding.why} />
          </p>
        </li>
      ))}
    </ul>
  );
}

const AROUND = 200;

/** The words that were found, marked among their neighbours; alone where those do not hold them. */
function Marked({ text, excerpt }: { text: string; excerpt: string }): VNode {
  const words = plain(excerpt.replace(/…$/, ""));
  const at = plain(text).indexOf(words);
  if (at < 0) return <Untrusted text={excerpt} />;
  const end = at + words.length;
  return (
    <>
      <Untrusted text={text.slice(Math.max(0, at - AROUND), at)} />
      <mark>
        <Untrusted text={text.slice(at, end)} />
      </mark>
      <Untrusted text={text.slice(end, end + AROUND)} />
    </>
  );
}

/** With quotes as the audit writes them, letter for letter. */
function plain(text: string): string {
  return text.replace(/[`‘’]/g, "'");
}

/** The text at a finding's place, in one line; nothing where the way does not lead to one. */
function textAt(spec: Spec, place: string): string {
  let held: unknown = spec;
  for (const step of place.match(/[^.[\]]+/g) ?? []) {
    if (typeof held !== "object" || held === null) return "";
    held = (held as Record<string, unknown>)[step.replace(/^'|'$/g, "")];
  }
  return typeof held === "string" ? held.replace(/\s+/g, " ") : "";
}
