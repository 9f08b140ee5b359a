/** One way to the service: with the key, with a time limit, and with errors in words. */

const TIMEOUT_MS = 20_000;

export interface Faults {
  place: string;
  reason: string;
}

/** Why an answer did not come. `kind`: the service said so, it was not reached, or was too slow. */
export class Trouble extends Error {
  constructor(
    readonly kind: "problem" | "offline" | "late",
    readonly status: number,
    readonly slug: string,
    readonly title: string,
    detail: string,
    readonly nearest: readonly string[] = [],
    readonly faults: readonly Faults[] = [],
    readonly retryAfterS: number | null = null,
    readonly request: string = "",
  ) {
    super(detail);
  }
}

export interface How {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  query?: URLSearchParams;
  signal?: AbortSignal;
  timeoutMs?: number;
}

interface Caller {
  key: string;
  namespace: string;
}

let caller: () => Caller = () => ({ key: "", namespace: "" });

/** Says whose key and which namespace go along with every call. */
export function callAs(who: () => Caller): void {
  caller = who;
}

/** Asks the service; `path` is below the page's own address, so that a prefix does no harm. */
export function call<T>(path: string, how: How = {}): Promise<T> {
  return send(path, how, async (answer) => {
    return (answer.status === 204 ? undefined : parsed(answer.status, await answer.text())) as T;
  });
}

/** The same for what is no JSON. */
export function callText(path: string, how: How = {}): Promise<string> {
  return send(path, how, (answer) => answer.text());
}

/** A tool's id as part of an address: slashes stay, unless a part would be taken for a step up. */
export function idPath(id: string): string {
  const parts = id.split("/").map(encodeURIComponent);
  const climbs = parts.some((part) => part === "" || part === "." || part === "..");
  return parts.join(climbs ? "%2F" : "/");
}

/** Sends, and reads the whole answer, within the time limit. */
async function send<T>(
  path: string,
  how: How,
  read: (answer: Response) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), how.timeoutMs ?? TIMEOUT_MS);
  const signal = how.signal ? AbortSignal.any([how.signal, late.signal]) : late.signal;
  const query = how.query?.toString();
  try {
    const answer = await fetch(query ? `${path}?${query}` : path, { ...request(how), signal });
    if (!answer.ok) throw await problem(answer);
    return await read(answer);
  } catch (error) {
    if (error instanceof Trouble || how.signal?.aborted) throw error;
    throw late.signal.aborted ? tooLate() : unreachable();
  } finally {
    clearTimeout(timer);
  }
}

function request(how: How): RequestInit {
  const { key, namespace } = caller();
  const headers = new Headers({ Accept: "application/json" });
  if (key) headers.set("Authorization", `Bearer ${key}`);
  if (namespace) headers.set("Toolcrib-Namespace", namespace);
  if (how.body !== undefined) headers.set("Content-Type", "application/json");
  const body = how.body === undefined ? null : JSON.stringify(how.body);
  return { method: how.method ?? "GET", headers, body, cache: "no-store", credentials: "omit" };
}

function parsed(status: number, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const detail = "What came back is no JSON: something else than toolcrib may answer here.";
    throw new Trouble("problem", status, "no-json", "The answer cannot be read", detail);
  }
}

async function problem(answer: Response): Promise<Trouble> {
  const told = await tell(answer);
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  const list = <T>(value: unknown): readonly T[] => (Array.isArray(value) ? (value as T[]) : []);
  const header = Number.parseFloat(answer.headers.get("Retry-After") ?? "");
  const after = typeof told["retry_after_s"] === "number" ? told["retry_after_s"] : header;
  return new Trouble(
    "problem",
    answer.status,
    text(told["type"]).split(":").pop() ?? "",
    text(told["title"]) || `The service answered ${answer.status}`,
    text(told["detail"]),
    list<string>(told["nearest"]),
    list<Faults>(told["errors"]),
    Number.isFinite(after) ? after : null,
    answer.headers.get("X-Request-Id") ?? text(told["instance"]).split(":").pop() ?? "",
  );
}

async function tell(answer: Response): Promise<Record<string, unknown>> {
  try {
    const told: unknown = await answer.json();
    return typeof told === "object" && told !== null ? (told as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function unreachable(): Trouble {
  const detail = navigator.onLine
    ? "Nothing answers at this address. Is the service still running? " +
      "It is started with `toolcrib serve`."
    : "This computer is offline.";
  return new Trouble("offline", 0, "offline", "The service cannot be reached", detail);
}

function tooLate(): Trouble {
  const detail = "The service took too long, and the page has stopped waiting. Ask again.";
  return new Trouble("late", 0, "late", "No answer in time", detail);
}
