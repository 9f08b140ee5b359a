/** JSON that is pasted, or read from a file that the reader chose. */

import type { VNode } from "preact";
import { Trouble } from "../api/call";

interface Props {
  label: string;
  hint: string;
  text: string;
  set: (text: string) => void;
}

export function PasteField({ label, hint, text, set }: Props): VNode {
  const read = async (file: File | undefined): Promise<void> => {
    if (file) set(await file.text());
  };
  return (
    <>
      <label class="field wide">
        {label}
        <textarea
          rows={8}
          spellcheck={false}
          placeholder={hint}
          value={text}
          onInput={(event) => set(event.currentTarget.value)}
        />
      </label>
      <label class="field wide">
        or from a file
        <input
          type="file"
          accept=".json,.jsonl"
          onChange={(event) => read(event.currentTarget.files?.[0])}
        />
      </label>
    </>
  );
}

/** JSON, or lines of JSON as a list; any other text is a trouble. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    } catch {
      const detail = "Give JSON without comments, or one JSON object a line.";
      throw new Trouble("problem", 0, "no-json", "This is no JSON", detail);
    }
  }
}
