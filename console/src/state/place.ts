/** Where the reader is: view and details, in the address behind `#`, which no server sees. */

import { signal } from "./signal";

export const VIEWS = [
  "ask",
  "overview",
  "registry",
  "quarantine",
  "collections",
  "decisions",
  "learning",
  "reports",
  "activity",
  "keys",
  "servers",
] as const;
export type View = (typeof VIEWS)[number];

/** Views of what a key with the access admin may do. */
export const ADMIN_VIEWS: ReadonlySet<View> = new Set(["keys", "servers"]);

export const TITLES: Readonly<Record<View, string>> = {
  ask: "Ask",
  overview: "Overview",
  registry: "Registry",
  quarantine: "Quarantine",
  collections: "Collections",
  decisions: "Decisions",
  learning: "Learning",
  reports: "Reports",
  activity: "Activity",
  keys: "Keys",
  servers: "Servers",
};

export interface Place {
  view: View;
  params: URLSearchParams;
}

export type Params = Readonly<Record<string, string | readonly string[] | undefined>>;

export const place = signal<Place>(read(location.hash));

/** How far each address was scrolled. */
const tops = new Map<string, number>();
addEventListener("scroll", () => tops.set(location.hash, scrollY));

/** Where the reader begins: at the top, or where Back and Forward find an address as it was left. */
export let arrivalTop = 0;

history.replaceState({}, "");
addEventListener("popstate", ({ state }) => {
  // A link's entry has no state before it is marked here.
  arrivalTop = state === null ? 0 : (tops.get(location.hash) ?? 0);
  history.replaceState({}, "");
  place.value = read(location.hash);
});

/** The address of a view; the namespace comes along. */
export function link(view: View, params: Params = {}): string {
  const found = new URLSearchParams();
  const ns = place.value.params.get("ns");
  for (const [name, value] of Object.entries({ ns: ns ?? undefined, ...params })) {
    for (const each of typeof value === "string" ? [value] : (value ?? [])) {
      if (each) found.append(name, each);
    }
  }
  const query = found.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

/** Goes somewhere; with `replace` the step back leads to before. */
export function go(view: View, params: Params = {}, replace = false): void {
  const to = link(view, params);
  if (to === location.hash) return;
  if (replace) history.replaceState({}, "", to);
  else {
    history.pushState({}, "", to);
    arrivalTop = 0;
  }
  place.value = read(to);
}

/** Changes some details of where the reader is. */
export function adjust(changes: Params, replace = false): void {
  const { view, params } = place.value;
  const names = new Set([...params.keys(), ...Object.keys(changes)]);
  const all: Record<string, readonly string[]> = {};
  for (const name of names) {
    const change = changes[name];
    if (!(name in changes)) all[name] = params.getAll(name);
    else if (change !== undefined) all[name] = typeof change === "string" ? [change] : change;
    else all[name] = [];
  }
  go(view, all, replace);
}

function read(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = VIEWS.find((each) => each === path) ?? "ask";
  return { view, params: new URLSearchParams(query) };
}
