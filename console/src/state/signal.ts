/** Values that stand outside of components. When one changes, the page is drawn anew.

All of it, from the top: it is small, and only what has changed reaches the document. */

export interface Signal<T> {
  value: T;
}

let draw: () => void = () => undefined;
let due = false;

/** Says how the page is drawn. */
export function drawBy(drawing: () => void): void {
  draw = drawing;
}

export function signal<T>(first: T): Signal<T> {
  let held = first;
  return {
    get value() {
      return held;
    },
    set value(next) {
      if (Object.is(next, held)) return;
      held = next;
      if (!due) queueMicrotask(redraw);
      due = true;
    },
  };
}

/** What follows from other values. */
export function computed<T>(work: () => T): Readonly<Signal<T>> {
  return {
    get value() {
      return work();
    },
  };
}

function redraw(): void {
  due = false;
  draw();
}
