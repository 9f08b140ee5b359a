/** Questions to the service from a component: the last one counts, the others are called off. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Trouble } from "../api/call";
import { revived } from "./pulse";
import { heed } from "./session";

export interface Answer<T> {
  /** What came last; it stays while something newer is on its way. */
  value: T | undefined;
  trouble: Trouble | undefined;
  waiting: boolean;
  again: () => void;
}

export type Ask<T> = (signal: AbortSignal) => Promise<T>;

interface State<T> {
  value: T | undefined;
  trouble: Trouble | undefined;
  waiting: boolean;
}

/** Asks whenever `about` changes; not at all where `ask` is null. */
export function useAnswer<T>(ask: Ask<T> | null, about: readonly unknown[]): Answer<T> {
  const nothing = { value: undefined, trouble: undefined, waiting: false };
  const [state, setState] = useState<State<T>>(nothing);
  const [turn, setTurn] = useState(0);
  const failed = useRef(false);
  const again = (): void => setTurn((before) => before + 1);
  const comebacks = revived.value;
  // Before the browser paints: a second click must find that the first one is waited for.
  useLayoutEffect(() => {
    if (ask === null) {
      setState(nothing);
      return undefined;
    }
    const control = new AbortController();
    setState((before) => ({ ...before, waiting: true }));
    ask(control.signal).then(
      (value) => {
        if (control.signal.aborted) return;
        failed.current = false;
        setState({ value, trouble: undefined, waiting: false });
      },
      (error: unknown) => {
        if (control.signal.aborted) return;
        const trouble = asTrouble(error);
        failed.current = true;
        setState({ value: undefined, trouble, waiting: false });
        heed(trouble);
      },
    );
    return () => control.abort();
  }, [...about, turn]);
  // Once the service is back, what had failed is asked again without anybody's doing.
  useEffect(() => {
    if (failed.current) again();
  }, [comebacks]);
  return { ...state, again };
}

export interface Writing {
  trouble: Trouble | undefined;
  write: (act: () => Promise<void>) => Promise<void>;
}

/** Writes to the service, one at a time: a second click during the first writes nothing. */
export function useWriting(): Writing {
  const [trouble, setTrouble] = useState<Trouble>();
  const running = useRef(false);
  const write = async (act: () => Promise<void>): Promise<void> => {
    if (running.current) return;
    running.current = true;
    try {
      await act();
      setTrouble(undefined);
    } catch (error) {
      setTrouble(asTrouble(error));
    } finally {
      running.current = false;
    }
  };
  return { trouble, write };
}

/** A value that follows another one when that has stood still for a while. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(() => value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Anything that was thrown, as a trouble. */
export function asTrouble(error: unknown): Trouble {
  if (error instanceof Trouble) return error;
  const said = error instanceof Error ? error.message : String(error);
  return new Trouble("problem", 0, "page", "The page made a mistake", said);
}
