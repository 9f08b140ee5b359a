/** The bar on top: where to go, whether the service answers, who asks, how it looks. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { look, LOOKS, wear } from "../state/look";
import { link, place, TITLES, VIEWS } from "../state/place";
import { away, ready } from "../state/pulse";
import { isOffered, me } from "../state/session";
import { helpOpen } from "../state/shortcuts";
import { AccessDialog } from "./access";

export function Head(): VNode {
  return (
    <header class="head">
      <a class="brand" href={link("ask")}>
        <svg viewBox="0 0 20 20" aria-hidden="true">
          <path d="M2 4h16M2 10h16M2 16h16" />
          <path class="pick" d="M5 4v3M10 10v3M14 4v3" />
        </svg>
        toolcrib
      </a>
      <nav aria-label="Views">
        <ul>
          {VIEWS.filter(isOffered).map((view) => (
            <li key={view}>
              <a href={link(view)} aria-current={place.value.view === view ? "page" : undefined}>
                {TITLES[view]}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="head-tools">
        <Pulse />
        <Who />
        <LookButton />
        <button
          type="button"
          class="quiet icon"
          aria-label="?: keys that work here"
          title="Keys that work here (?)"
          onClick={() => (helpOpen.value = true)}
        >
          ?
        </button>
      </div>
    </header>
  );
}

function Pulse(): VNode {
  if (away.value) {
    return (
      <span class="pulse bad" role="status" title={away.value.message}>
        <span class="dot" aria-hidden="true" />
        {away.value.kind === "offline" ? "not reached" : "not ready"}
      </span>
    );
  }
  const title = ready.value
    ? [ready.value.engine, ready.value.encoder].filter(Boolean).join(", ")
    : "";
  return (
    <span class="pulse" role="status" title={title}>
      <span class={ready.value ? "dot on" : "dot"} aria-hidden="true" />
      <span class="pulse-word">{ready.value ? "ready" : "…"}</span>
    </span>
  );
}

function Who(): VNode | null {
  const [open, setOpen] = useState(false);
  const who = me.value;
  if (who === null) return null;
  return (
    <>
      <button
        type="button"
        class="who"
        aria-haspopup="dialog"
        title="Who you are: key, namespace, limits"
        onClick={() => setOpen(true)}
      >
        <span class="unseen">You are </span>
        <span class="who-name">{who.name}</span>
        <small>{who.namespace}</small>
      </button>
      {open && <AccessDialog close={() => setOpen(false)} />}
    </>
  );
}

const SIGNS = { system: "◐", light: "○", dark: "●" } as const;

function LookButton(): VNode {
  const now = look.value;
  const next = LOOKS[(LOOKS.indexOf(now) + 1) % LOOKS.length] ?? "system";
  const label = `Look: ${now}; change to ${next}`;
  return (
    <button type="button" class="quiet icon" aria-label={label} title={label} onClick={() => wear(next)}>
      <span aria-hidden="true">{SIGNS[now]}</span>
    </button>
  );
}
