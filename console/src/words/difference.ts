/** Two texts line by line: what stays, what goes, what comes. */

export interface Line {
  kind: "same" | "old" | "new";
  text: string;
}

const MOST = 1_000;

/** The shortest way from one to the other; of texts too long for that, all old and all new. */
export function difference(old: string, now: string): Line[] {
  const before = old.split("\n");
  const after = now.split("\n");
  let start = 0;
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start++;
  let end = 0;
  const room = Math.min(before.length, after.length) - start;
  while (end < room && before.at(-1 - end) === after.at(-1 - end)) end++;
  const line = (kind: Line["kind"]) => (text: string): Line => ({ kind, text });
  return [
    ...before.slice(0, start).map(line("same")),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(line("same")),
  ];
}

function middle(before: string[], after: string[]): Line[] {
  if (before.length * after.length > MOST * MOST) {
    return [
      ...before.map((text): Line => ({ kind: "old", text })),
      ...after.map((text): Line => ({ kind: "new", text })),
    ];
  }
  const common = lengths(before, after);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const [a, b] = [before[i], after[j]];
    if (a !== undefined && a === b) {
      lines.push({ kind: "same", text: a });
      i++;
      j++;
    } else if (a !== undefined && (b === undefined || at(common, i + 1, j) >= at(common, i, j + 1))) {
      lines.push({ kind: "old", text: a });
      i++;
    } else {
      lines.push({ kind: "new", text: b ?? "" });
      j++;
    }
  }
  return lines;
}

/** How many lines the rests from each pair of places on have in common. */
function lengths(before: string[], after: string[]): number[][] {
  const common = Array.from({ length: before.length + 1 }, () => Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const longer = Math.max(at(common, i + 1, j), at(common, i, j + 1));
      common[i]![j] = before[i] === after[j] ? at(common, i + 1, j + 1) + 1 : longer;
    }
  }
  return common;
}

function at(table: number[][], i: number, j: number): number {
  return table[i]?.[j] ?? 0;
}
