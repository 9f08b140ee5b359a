/** A button that copies a text, and says so. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { announce } from "../state/announce";

export function CopyButton({ text, what }: { text: string; what: string }): VNode {
  const [said, setSaid] = useState("Copy");
  const copy = async (): Promise<void> => {
    const done = await put(text);
    setSaid(done ? "Copied" : "Not allowed");
    announce(done ? `${what} copied` : "The browser does not allow copying");
    setTimeout(() => setSaid("Copy"), 2000);
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-label={`Copy ${what}`}>
      {said}
    </button>
  );
}

/** Browsers give a page the clipboard only over HTTPS or from this machine. */
async function put(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
