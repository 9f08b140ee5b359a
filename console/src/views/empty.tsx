/** An index without tools: how it is filled. */

import type { VNode } from "preact";
import { CopyButton } from "../parts/copy";
import { asked, key } from "../state/session";

export function EmptyIndex(): VNode {
  const root = new URL(".", location.href).href;
  const headers = [
    key.value && `-H "Authorization: Bearer $TOOLCRIB_API_KEY"`,
    asked.value && `-H "Toolcrib-Namespace: ${asked.value}"`,
  ].filter(Boolean);
  const ask = [`curl --json @tools.json`, ...headers, `${root}v1/tools`].join(" ");
  return (
    <section class="empty">
      <h2>The index is empty</h2>
      <p>
        {asked.value ? `Namespace ${asked.value} has no tools.` : "There are no tools yet."} Send
        them to the service, in any format that toolcrib reads (MCP, OpenAPI, OpenAI, Anthropic,
        JSON Lines), as <code>{'{"tools": [...]}'}</code>:
      </p>
      <Command text={ask} />
      <p>or fill the store by the command line, with the service stopped if it is a folder:</p>
      <Command text="toolcrib index tools.json" />
    </section>
  );
}

/** In place of what a key with the access admin may do alone. */
export function AdminOnly({ what }: { what: string }): VNode {
  return (
    <section class="empty">
      <p>{what} by a key that may do everything. Who runs the service makes one:</p>
      <Command text="toolcrib keys create my-name --admin" />
    </section>
  );
}

export function Command({ text, what = "the command" }: { text: string; what?: string }): VNode {
  return (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} what={what} />
    </div>
  );
}
