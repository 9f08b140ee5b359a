/** Arrow keys walk through the results of a list, Home and End go to its ends. */

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };

/** To be called on every key of a list; the stops in it are marked with `data-stop`. */
export function walk(event: KeyboardEvent): void {
  const list = event.currentTarget;
  if (!(list instanceof HTMLElement) || event.altKey || event.ctrlKey || event.metaKey) return;
  const stops = [...list.querySelectorAll<HTMLElement>("[data-stop]")];
  const here = stops.findIndex((stop) => stop === event.target);
  if (here < 0) return;
  const step = STEPS[event.key];
  let to: number;
  if (step !== undefined) to = here + step;
  else if (event.key === "Home") to = 0;
  else if (event.key === "End") to = stops.length - 1;
  else return;
  event.preventDefault();
  if (to < 0) document.querySelector<HTMLElement>("[data-question]")?.focus();
  else stops[Math.min(to, stops.length - 1)]?.focus();
}

/** From a question, the arrow down goes to the first result. */
export function toResults(event: KeyboardEvent): void {
  const field = event.currentTarget as HTMLInputElement | HTMLTextAreaElement;
  if (event.key !== "ArrowDown" || field.selectionEnd !== field.value.length) return;
  const first = document.querySelector<HTMLElement>("main [data-stop]");
  if (first === null) return;
  event.preventDefault();
  first.focus();
}
