/** The newest decisions, looked for again and again while anybody looks. */

import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Trouble } from "../api/call";
import type { DecisionRecord } from "../api/types";
import { several } from "../words/figures";
import { announce } from "./announce";
import { asTrouble } from "./answers";
import { heed } from "./session";

const EVERY_MS = 3_000;
const LONGEST_MS = 60_000;
const PAGE = 50;

export interface Recent {
  records: readonly DecisionRecord[];
  known: boolean;
  trouble: Trouble | undefined;
  live: boolean;
  setLive: (on: boolean) => void;
  again: () => void;
  /** Reads older ones; absent where there are none. */
  more: (() => void) | undefined;
}

interface Page {
  decisions: DecisionRecord[];
  next: string | null;
}

/** What is read of the stream so far: `next` leads to older ones. */
interface Read {
  records: readonly DecisionRecord[];
  next: string | null;
}

export function useRecent(): Recent {
  const [read, setRead] = useState<Read>();
  const [trouble, setTrouble] = useState<Trouble>();
  const [live, setLive] = useState(true);
  const [turn, setTurn] = useState(0);
  const fail = (error: unknown): void => {
    const told = asTrouble(error);
    setTrouble(told);
    heed(told);
  };
  const take = (page: Page): void => {
    setTrouble(undefined);
    setRead((before) => joined(before, page));
  };
  useLooking(live, turn, take, fail);
  const older = (): void => {
    if (!read?.next) return;
    const query = new URLSearchParams({ limit: String(PAGE), cursor: read.next });
    call<Page>("v1/decisions", { query }).then((page) => {
      setRead((before) => ({
        records: unique([...(before?.records ?? []), ...page.decisions]),
        next: page.next,
      }));
    }, fail);
  };
  return {
    records: read?.records ?? [],
    known: read !== undefined,
    trouble,
    live,
    setLive,
    again: () => setTurn((before) => before + 1),
    more: read?.next ? older : undefined,
  };
}

/** Looks at each turn, and while `live` again and again, less often the more often it fails. */
function useLooking(
  live: boolean,
  turn: number,
  take: (page: Page) => void,
  fail: (error: unknown) => void,
): void {
  const failures = useRef(0);
  const looked = useRef(-1);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const look = async (): Promise<void> => {
      try {
        if (document.visibilityState === "visible") take(await newest(control.signal));
        failures.current = 0;
      } catch (error) {
        if (control.signal.aborted) return;
        failures.current += 1;
        fail(error);
      }
      const wait = Math.min(LONGEST_MS, EVERY_MS * 2 ** failures.current);
      if (live && !control.signal.aborted) timer = setTimeout(look, wait);
    };
    if (live || looked.current !== turn) void look();
    looked.current = turn;
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [live, turn]);
}

function newest(signal: AbortSignal): Promise<Page> {
  const query = new URLSearchParams({ limit: String(PAGE) });
  return call<Page>("v1/decisions", { query, signal });
}

/** What is new goes in front; after a gap, what was read before it is forgotten. */
function joined(before: Read | undefined, page: Page): Read {
  if (before === undefined) return { records: page.decisions, next: page.next };
  const known = new Set(before.records.map((record) => record.id));
  const fresh = page.decisions.filter((record) => !known.has(record.id));
  if (fresh.length === 0) return before;
  announce(`${several(fresh.length, "new decision")}`);
  const meets = fresh.length < page.decisions.length || before.records.length === 0;
  if (!meets && page.next !== null) return { records: page.decisions, next: page.next };
  return { records: [...fresh, ...before.records], next: before.records.length ? before.next : page.next };
}

function unique(records: readonly DecisionRecord[]): DecisionRecord[] {
  return [...new Map(records.map((record) => [record.id, record])).values()];
}
