/** One tool in full. */

import type { ComponentChildren, VNode } from "preact";
import type { Spec } from "../api/types";
import { link } from "../state/place";
import { several } from "../words/figures";
import { countHidden } from "../words/hidden";
import { Json } from "./json";
import { Arguments } from "./schema";
import { Untrusted } from "./untrusted";

export function SpecSheet({ spec }: { spec: Spec }): VNode {
  return (
    <div class="spec">
      <HiddenWarning spec={spec} />
      <p class="long description">
        {spec.description ? <Untrusted text={spec.description} /> : "It has no description."}
      </p>
      <Facts spec={spec} />
      <Arguments schema={spec.input_schema} caption="Arguments" />
      {Object.keys(spec.output_schema).length > 0 && (
        <Arguments schema={spec.output_schema} caption="Result" />
      )}
      <Sentences title="It is right for" lines={spec.success_examples} />
      <Sentences title="It is wrong for" lines={spec.anti_patterns} />
      <Json value={spec} title="The specification as JSON" />
    </div>
  );
}

/** Says that a specification has characters which nobody sees. */
function HiddenWarning({ spec }: { spec: Spec }): VNode | null {
  const hidden = countHidden(JSON.stringify(spec));
  if (hidden === 0) return null;
  return (
    <p class="warning">
      Invisible characters in {several(hidden, "place")}; they are shown{" "}
      <span class="hidden-char">like this</span>.
    </p>
  );
}

function Facts({ spec }: { spec: Spec }): VNode {
  const joined = (all: readonly string[]): string => all.join(", ");
  return (
    <dl class="facts">
      <Fact name="sensitivity">{spec.sensitivity}</Fact>
      {spec.category && (
        <Fact name="category">
          <Untrusted text={spec.category} />
        </Fact>
      )}
      {spec.tags.length > 0 && (
        <Fact name="tags">
          {spec.tags.map((tag) => (
            <a key={tag} class="tag" href={link("registry", { tag })}>
              <Untrusted text={tag} />
            </a>
          ))}
        </Fact>
      )}
      <TextFact name="safety tags" text={joined(spec.safety_tags)} />
      <TextFact name="requires" text={joined(spec.requires)} />
      <TextFact name="provides" text={joined(spec.provides)} />
      <TextFact name="version" text={spec.version} />
      <TextFact name="cost" text={spec.cost_estimate === null ? "" : String(spec.cost_estimate)} />
      <TextFact
        name="usual latency"
        text={spec.avg_latency_ms === null ? "" : `${spec.avg_latency_ms} ms`}
      />
      <TextFact
        name="annotations"
        text={Object.entries(spec.annotations)
          .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
          .join(", ")}
      />
    </dl>
  );
}

function TextFact({ name, text }: { name: string; text: string }): VNode | null {
  if (!text) return null;
  return (
    <Fact name={name}>
      <Untrusted text={text} />
    </Fact>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }): VNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Sentences({ title, lines }: { title: string; lines: readonly string[] }): VNode | null {
  if (lines.length === 0) return null;
  return (
    <section class="sentences">
      <h3>{title}</h3>
      <ul>
        {lines.map((line, place) => (
          <li key={place}>
            <Untrusted text={line} />
          </li>
        ))}
      </ul>
    </section>
  );
}
