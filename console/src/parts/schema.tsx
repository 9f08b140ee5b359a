/** A JSON schema as the arguments that a person looks for. */

import type { VNode } from "preact";
import { Untrusted } from "./untrusted";

type Schema = Readonly<Record<string, unknown>>;

const DEPTH = 6;

export function Arguments({ schema, caption }: { schema: Schema; caption: string }): VNode {
  const rows = rowsOf(schema, "", 0);
  if (rows.length === 0) return <p class="note">{caption}: none are described.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class="arguments">
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col">type</th>
            <th scope="col">what it is</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.path}>
              <th scope="row">
                <code>
                  <Untrusted text={row.path} />
                </code>
                {row.required && <span class="tag">required</span>}
              </th>
              <td>
                <Untrusted text={row.type} />
              </td>
              <td>
                <Untrusted text={row.about} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Row {
  path: string;
  type: string;
  about: string;
  required: boolean;
}

function rowsOf(schema: Schema, above: string, depth: number): Row[] {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  if (depth > DEPTH) return [];
  return Object.entries(asSchema(schema["properties"])).flatMap(([name, value]) => {
    const own = asSchema(value);
    const path = above ? `${above}.${name}` : name;
    const items = asSchema(own["items"]);
    const row = { path, type: typeOf(own), about: aboutOf(own), required: required.includes(name) };
    return [row, ...rowsOf(own, path, depth + 1), ...rowsOf(items, `${path}[]`, depth + 1)];
  });
}

function typeOf(schema: Schema): string {
  const named = schema["type"];
  const items = asSchema(schema["items"]);
  if (named === "array" && items["type"]) return `array of ${text(items["type"])}`;
  if (named !== undefined) return text(named);
  for (const way of ["anyOf", "oneOf", "allOf"]) {
    const branches = schema[way];
    if (Array.isArray(branches)) return branches.map((each) => typeOf(asSchema(each))).join(" | ");
  }
  return Array.isArray(schema["enum"]) ? "enum" : "any";
}

function aboutOf(schema: Schema): string {
  const parts = [text(schema["description"] ?? "")];
  if (Array.isArray(schema["enum"])) parts.push(`One of: ${schema["enum"].map(text).join(", ")}.`);
  if (schema["default"] !== undefined) parts.push(`Default: ${text(schema["default"])}.`);
  return parts.filter(Boolean).join(" ");
}

function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).join(" | ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

function asSchema(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}
