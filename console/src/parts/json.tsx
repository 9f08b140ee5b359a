/** A value as JSON, folded away, to be read or copied. */

import type { VNode } from "preact";
import { CopyButton } from "./copy";
import { Untrusted } from "./untrusted";

interface Props {
  value: unknown;
  title: string;
  open?: boolean;
}

export function Json({ value, title, open = false }: Props): VNode {
  const text = JSON.stringify(value, null, 2);
  return (
    <details class="json" open={open}>
      <summary>{title}</summary>
      <div class="json-body">
        <CopyButton text={text} what={title} />
        <pre role="group" tabIndex={0} aria-label={title}>
          <Untrusted text={text} />
        </pre>
      </div>
    </details>
  );
}
