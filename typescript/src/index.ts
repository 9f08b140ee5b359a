/** Client of toolcrib's HTTP service: every endpoint, typed by the service's OpenAPI document. */

import createClient, {
  type Client,
  type ClientPathsWithMethod,
  type MaybeOptionalInit,
} from "openapi-fetch";
import type {
  FoundTools,
  ProblemBody,
  RouteBody,
  RoutedTurn,
  SearchBody,
  ToolHit,
  paths,
} from "./schema.js";

export type * from "./schema.js";

/** What `findTools` gives: tools as ranked hits, not in the words of a provider. */
export type RankedTools = Omit<FoundTools, "tools"> & { readonly tools: readonly ToolHit[] };

/** What `route` gives: a decision whose tools are ranked hits. */
export type Decision = Omit<RoutedTurn, "tools"> & {
  readonly tools: Omit<RoutedTurn["tools"], "tools"> & { readonly tools: readonly ToolHit[] };
};

export interface ToolcribOptions {
  /** Where the service is, as `https://tools.example.org`. */
  readonly url: string;
  readonly apiKey?: string | undefined;
  /** Which namespace is meant, for a key that has several. */
  readonly namespace?: string | undefined;
  /** How often to ask again after 429 and 503, once the service's `Retry-After` has passed. */
  readonly retries?: number;
  /** What sends requests, in place of the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

type Method = "get" | "post" | "delete";
type Path<M extends Method> = ClientPathsWithMethod<Client<paths>, M>;
type Init<P extends keyof paths, M extends Method> = M extends keyof paths[P]
  ? MaybeOptionalInit<paths[P], M>
  : never;
type Arguments<I> = undefined extends I ? [init?: I] : [init: I];
type Answer<P extends keyof paths, M extends Method> = paths[P] extends {
  [each in M]: { responses: { 200: { content: Record<string, infer Body> } } };
}
  ? Body
  : undefined;

type TextPath = {
  [P in keyof paths]: paths[P] extends { get: { responses: { 200: { content: infer Contents } } } }
    ? "application/json" extends keyof Contents
      ? never
      : P
    : never;
}[keyof paths];

type Ranked<Body> = Omit<Body, "shape"> & { readonly shape?: "summary" | "full" };
type Cancellable = Pick<RequestInit, "signal">;

const PROBLEM = /^urn:toolcrib:problem:(.+)$/;

/** What the service said in place of an answer; its text is the problem's `detail`. */
export class ToolcribError extends Error {
  override readonly name = "ToolcribError";
  readonly status: number;
  /** As the page on errors names it, such as `unknown-tool`; empty if it was not the service. */
  readonly kind: string;

  constructor(readonly problem: ProblemBody) {
    super(problem.detail);
    this.status = problem.status;
    this.kind = PROBLEM.exec(problem.type)?.[1] ?? "";
  }
}

/**
 * A service, and who asks it.
 *
 * Every call gives what the service answers, or throws a `ToolcribError`; where no service is
 * reached, what `fetch` throws. The last argument takes what `fetch` does, such as a `signal`.
 */
export class Toolcrib {
  readonly #client: Client<paths>;

  constructor({ url, apiKey, namespace, retries = 2, fetch: send = fetch }: ToolcribOptions) {
    this.#client = createClient<paths>({
      baseUrl: url,
      // The key would go along.
      redirect: "error",
      headers: {
        Authorization: apiKey && `Bearer ${apiKey}`,
        "Toolcrib-Namespace": namespace,
      },
      fetch: (request) => repeated(request, send, retries),
    });
  }

  /** The tools that fit a query, best first. */
  async findTools(body: Ranked<SearchBody>, how: Cancellable = {}): Promise<RankedTools> {
    return (await this.post("/v1/tools/search", { ...how, body })) as RankedTools;
  }

  /** What a turn is, and which tools and passages it needs. */
  async route(body: Ranked<RouteBody>, how: Cancellable = {}): Promise<Decision> {
    return (await this.post("/v1/route", { ...how, body })) as Decision;
  }

  get<P extends Path<"get">>(path: P, ...[init]: Arguments<Init<P, "get">>) {
    return this.#ask("get", path, init);
  }

  post<P extends Path<"post">>(path: P, ...[init]: Arguments<Init<P, "post">>) {
    return this.#ask("post", path, init);
  }

  delete<P extends Path<"delete">>(path: P, ...[init]: Arguments<Init<P, "delete">>) {
    return this.#ask("delete", path, init);
  }

  async #ask<P extends keyof paths, M extends Method>(method: M, path: P, init: object = {}) {
    const ask = this.#client.request as (...how: unknown[]) => Promise<{ response: Response }>;
    // Unread, since not every answer is JSON.
    const { response } = await ask(method, path, { ...init, parseAs: "stream" });
    return (await content(response, path)) as Answer<P, M>;
  }
}

/** What answers with a text, and of which kind; every other answer is JSON. */
const TEXTS: Readonly<Record<TextPath, string>> = {
  "/metrics": "text/plain",
  "/v1/reports/{name}": "text/html",
};

async function content(response: Response, path: keyof paths): Promise<unknown> {
  if (response.status === 204) return undefined;
  const text = await response.text();
  const kind = path in TEXTS ? TEXTS[path as TextPath] : undefined;
  const isText = kind && response.headers.get("content-type")?.startsWith(kind);
  const told = isText ? text : parsed(text);
  if (told === undefined) throw foreign(response);
  return told;
}

/** Undefined for what is no JSON, whatever its header says. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function repeated(
  request: Request,
  send: (request: Request) => Promise<Response>,
  retries: number,
): Promise<Response> {
  for (let left = retries; ; left--) {
    const response = await send(request.clone());
    if (response.ok) return response;
    const after = Number(response.headers.get("retry-after") ?? Number.NaN);
    const isPassing = [429, 503].includes(response.status) && after <= MAX_WAIT_S;
    if (!isPassing || left <= 0) throw await failure(response);
    await response.body?.cancel();
    await pause(after * 1000, request.signal);
  }
}

/** Who is asked to wait for more seconds than this is told so instead. */
const MAX_WAIT_S = 10;

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, stop) => {
    const timer = setTimeout(done, ms);
    const cancel = () => {
      clearTimeout(timer);
      stop(signal.reason);
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
  });
}

async function failure(response: Response): Promise<ToolcribError> {
  const told = parsed(await response.text()) as Partial<ProblemBody> | null | undefined;
  if (!PROBLEM.test(told?.type ?? "")) return foreign(response);
  return new ToolcribError({ ...(told as ProblemBody), status: response.status });
}

/** An answer that a proxy gave, or some other service. */
function foreign({ status, url }: Response): ToolcribError {
  const detail = `${url} answered ${status}, and not as toolcrib does`;
  return new ToolcribError({ type: "about:blank", title: "", status, detail, instance: url });
}
