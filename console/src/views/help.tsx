/** What can be done by keys. */

import type { VNode } from "preact";
import { Dialog } from "../parts/dialog";
import { TITLES, VIEWS } from "../state/place";
import { allowShortcuts, shortcuts } from "../state/shortcuts";

/** Views that a digit leads to. */
const NUMBERED = VIEWS.slice(0, 9);

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "to the question or search of the view"],
  ["↓ ↑", "through the results, from the question too; Home and End to their ends"],
  ["Enter", "ask, open, fold out"],
  ["Shift Enter", "a new line in the question"],
  ["Esc", "out of a field, back from what is open"],
  ["?", "this list"],
];

export function Help({ close }: { close: () => void }): VNode {
  const views = NUMBERED.map((view, place) => [String(place + 1), TITLES[view]] as const);
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {[...KEYS, ...views].map(([name, about]) => (
          <div key={name}>
            <dt>
              {name.split(" ").map((each) => (
                <kbd key={each}>{each}</kbd>
              ))}
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
      <label class="switch">
        <input
          type="checkbox"
          checked={shortcuts.value}
          onChange={(event) => allowShortcuts(event.currentTarget.checked)}
        />
        Single keys work (/, ?, 1 to {NUMBERED.length})
      </label>
    </Dialog>
  );
}
