/** What an audit noticed: how bad, where, in which words, and why that matters. */

import type { VNode } from "preact";
import type { Finding } from "../api/types";
import { Untrusted } from "./untrusted";

export function Findings({ findings }: { findings: readonly Finding[] }): VNode {
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
            <Untrusted text={finding.excerpt} />
          </blockquote>
          <p class="note">
            <Untrusted text={finding.why} />
          </p>
        </li>
      ))}
    </ul>
  );
}
