/** The page: head, one view, and what lies over it. */

import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { TroubleNote } from "./parts/trouble";
import { Waiting } from "./parts/waiting";
import { announced } from "./state/announce";
import { useAnswer } from "./state/answers";
import { arrivalTop, place, TITLES, type View } from "./state/place";
import { revived, watchPulse } from "./state/pulse";
import { asked, identify, me } from "./state/session";
import { helpOpen, listen } from "./state/shortcuts";
import { Entrance } from "./views/access";
import { Ask } from "./views/ask";
import { Decisions } from "./views/decisions";
import { Head } from "./views/head";
import { Help } from "./views/help";
import { Overview } from "./views/overview";
import { Registry } from "./views/registry";

/** A view whose code comes when it is first shown. */
function later(name: keyof typeof import("./views/more")): () => VNode {
  return function Later() {
    const { value, trouble, again } = useAnswer(() => import("./views/more"), []);
    const Shown = value?.[name];
    if (trouble) return <TroubleNote trouble={trouble} again={again} />;
    return Shown ? <Shown /> : <Waiting what="Loading" />;
  };
}

const SHOWN: Readonly<Record<View, () => VNode>> = {
  ask: Ask,
  overview: Overview,
  registry: Registry,
  quarantine: later("Quarantine"),
  collections: later("Collections"),
  decisions: Decisions,
  learning: later("Learning"),
  reports: later("Reports"),
  activity: later("Activity"),
  keys: later("Keys"),
  servers: later("Servers"),
};

export function App(): VNode {
  const main = useRef<HTMLElement>(null);
  const { view } = place.value;
  const Shown = SHOWN[view];
  useEffect(() => watchPulse(), []);
  useEffect(() => listen(), []);
  useEffect(() => void identify(), [asked.value]);
  useEffect(() => {
    if (revived.value > 0 && me.value === null) void identify();
  }, [revived.value]);
  useArrival(main.current);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <Head />
      <main id="main" ref={main} tabIndex={-1}>
        {me.value === null ? <Entrance /> : <Shown key={view} />}
      </main>
      {helpOpen.value && <Help close={() => (helpOpen.value = false)} />}
      <div class="unseen" role="status" aria-live="polite">
        {announced.value}
      </div>
    </>
  );
}

/** Another view, or something opened in it: named in the title, and begun where it was left.

Where the page itself has just been opened, the keyboard begins at its very top. */
function useArrival(main: HTMLElement | null): void {
  const { view, params } = place.value;
  const arrivals = useRef(0);
  const opened = ["tool", "decision", "report"].map((name) => params.get(name)).find(Boolean);
  useEffect(() => {
    const what = opened ?? TITLES[view];
    document.title = `${what} · toolcrib`;
    if (main === null) return;
    // What is shown may still be on its way: the room for it is there at once.
    main.style.minHeight = arrivalTop ? `${arrivalTop + innerHeight}px` : "";
    scrollTo({ top: arrivalTop });
    if (me.value === null) return;
    arrivals.current += 1;
    const waits = view === "ask" && !params.get("q");
    const field = waits ? main.querySelector<HTMLElement>("[data-question]") : null;
    const goal = field ?? (arrivals.current > 1 ? main : null);
    goal?.focus({ preventScroll: true });
  }, [view, opened, me.value === null]);
}
