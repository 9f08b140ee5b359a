/** What the browser keeps for the page; nothing, where it has been told to keep nothing. */

/** What is kept under a name; empty for nothing. */
export function kept(where: "session" | "local", name: string): string {
  try {
    return storage(where).getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a text under a name; an empty one removes it. */
export function keep(where: "session" | "local", name: string, text: string): void {
  try {
    if (text) storage(where).setItem(name, text);
    else storage(where).removeItem(name);
  } catch {
    // It then holds as long as the page is not loaded anew.
  }
}

function storage(where: "session" | "local"): Storage {
  return where === "session" ? sessionStorage : localStorage;
}
