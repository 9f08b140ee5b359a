/** One of several values, or none. */

import type { VNode } from "preact";

interface Props {
  label: string;
  value: string;
  options: readonly string[];
  /** The word for no value. */
  none: string;
  /** Words of options that are shown by other ones than their own. */
  words?: Readonly<Record<string, string>>;
  set: (value: string) => void;
}

export function Choice({ label, value, options, none, words, set }: Props): VNode {
  return (
    <label class="field">
      {label}
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">{none}</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {words?.[option] ?? option}
          </option>
        ))}
      </select>
    </label>
  );
}
