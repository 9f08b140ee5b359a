/** Figures as people read them. */

/** A probability in percent; small ones are not made nothing. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  if (value > 0 && value < 0.5) return "< 1\u00a0%";
  if (value < 100 && value > 99.5) return "> 99\u00a0%";
  return `${value.toFixed(0)}\u00a0%`;
}

/** Milliseconds: two digits that say something. */
export function millis(ms: number): string {
  const text = ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2);
  return `${text}\u00a0ms`;
}

export function score(value: number): string {
  return value.toFixed(3);
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

/** `1 tool`, `2 tools`. */
export function several(n: number, one: string, many = `${one}s`): string {
  return `${count(n)}\u00a0${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n}\u00a0B`;
  return n < 1e6 ? `${(n / 1e3).toFixed(0)}\u00a0kB` : `${(n / 1e6).toFixed(1)}\u00a0MB`;
}

/** A moment of the service's, as text or in seconds since 1970. */
export function moment(value: string | number): Date {
  return new Date(typeof value === "number" ? value * 1000 : value);
}

/** Today only the time, else also the day; in the reader's time zone. */
export function when(value: string | number): string {
  const at = moment(value);
  if (Number.isNaN(at.getTime())) return String(value);
  const time = at.toLocaleTimeString("en-GB");
  const today = new Date().toDateString() === at.toDateString();
  const day = { day: "numeric", month: "short", year: "numeric" } as const;
  return today ? time : `${at.toLocaleDateString("en-GB", day)}, ${time}`;
}

/** The first line of a text, without the rest. */
export function firstLine(text: string): string {
  return text.trim().split(/\r?\n/, 1)[0] ?? "";
}
