/** Everything that can be found: by facets, page by page, or by words as they are typed. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call";
import { type Counts, type Facets, type Found, SENSITIVITIES, type Spec, type ToolPage } from "../api/types";
import { Choice } from "../parts/choice";
import { FacetList } from "../parts/facets";
import { Spelling } from "../parts/spelling";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useSettled } from "../state/answers";
import { toResults, walk } from "../state/arrows";
import { adjust, link, place } from "../state/place";
import { asked, mayWrite } from "../state/session";
import { firstLine, percent, several } from "../words/figures";
import { EmptyIndex } from "./empty";
import { Sources } from "./sources";
import { Tool } from "./tool";

/** Where facets stand above the list instead of beside it, they are folded away. */
const isWide = matchMedia("(min-width: 56rem)").matches;
const PAGE = 50;
const FOUND = 30;

const ORDERS = ["name", "server", "use"];
const STATES: Readonly<Record<string, object>> = {
  on: { field: "enabled", equals: true },
  off: { field: "enabled", equals: false },
  "always given": { field: "always_active", equals: true },
  deprecated: { field: "deprecated", equals: true },
};

/** What the choices beside the list leave over. */
function scope(): object {
  const { params } = place.value;
  const all = (name: string): string[] | null => {
    const values = params.getAll(name);
    return values.length > 0 ? values : null;
  };
  return {
    servers: all("server"),
    tags: all("tag"),
    categories: all("category"),
    max_sensitivity: params.get("ceiling"),
  };
}

export function Registry(): VNode {
  const tool = place.value.params.get("tool");
  return tool === null ? <Shelves /> : <Tool key={tool} id={tool} />;
}

function Shelves(): VNode {
  const { params } = place.value;
  const [turn, setTurn] = useState(0);
  const facets = useAnswer((signal) => call<Facets>("v1/facets", { signal }), [asked.value, turn]);
  const q = params.get("q") ?? "";
  const [typed, setTyped] = useState(q);
  const words = useSettled(typed.trim(), 180);
  useEffect(() => {
    if (words !== q) adjust({ q: words, after: undefined }, true);
  }, [words]);
  useEffect(() => {
    if (q !== words) setTyped(q);
  }, [q]);
  const none = facets.value?.tools === 0;
  const sources = mayWrite.value && <Sources done={() => setTurn(turn + 1)} />;
  if (none || facets.trouble) {
    return (
      <>
        <h1>Registry</h1>
        {none && sources}
        {none && <EmptyIndex />}
        {facets.trouble && <TroubleNote trouble={facets.trouble} again={facets.again} />}
      </>
    );
  }
  return (
    <>
      <h1>
        Registry {facets.value && <small>{several(facets.value.tools, "tool")}</small>}
      </h1>
      {sources}
      <label class="shelf-search">
        <span class="unseen">Search the registry</span>
        <input
          type="search"
          data-question
          placeholder="What must the tool do?"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={toResults}
        />
      </label>
      <div class="shelves">
        <Narrowing facets={facets.value} />
        <div class="shelf">{words ? <Matches words={words} /> : <Pages turn={turn} />}</div>
      </div>
    </>
  );
}

function Narrowing({ facets }: { facets: Facets | undefined }): VNode {
  const none: Counts = {};
  return (
    <aside class="narrowing" aria-label="Narrow by">
      <FacetList title="Server" name="server" counts={facets?.servers ?? none} open={isWide} />
      <FacetList title="Tag" name="tag" counts={facets?.tags ?? none} />
      <FacetList title="Category" name="category" counts={facets?.categories ?? none} />
      <FacetList
        title="Ceiling"
        name="ceiling"
        counts={facets?.sensitivities ?? none}
        order={SENSITIVITIES}
        single
      />
    </aside>
  );
}

function Pages({ turn }: { turn: number }): VNode {
  const { params } = place.value;
  const cursor = params.get("after") ?? "";
  const [trail, setTrail] = useState<readonly string[]>([]);
  const body = {
    limit: PAGE,
    cursor: cursor || null,
    scope: scope(),
    where: STATES[params.get("state") ?? ""] ?? null,
    order: params.get("order") ?? "store",
  };
  const { value, trouble, again } = useAnswer(
    (signal) => call<ToolPage>("v1/tools/list", { method: "POST", body, signal }),
    [asked.value, turn, JSON.stringify(body)],
  );
  if (trouble) return <TroubleNote trouble={trouble} again={again} />;
  if (value === undefined) return <Waiting what="Reading" />;
  const next = value.next;
  const forward = (): void => {
    setTrail([...trail, cursor]);
    adjust({ after: next ?? undefined });
  };
  const back = (): void => {
    setTrail(trail.slice(0, -1));
    adjust({ after: trail.at(-1) || undefined });
  };
  return (
    <>
      <div class="filters">
        <Choice
          label="Order"
          value={params.get("order") ?? ""}
          options={ORDERS}
          none="as stored"
          words={{ use: "calls, most first" }}
          set={(order) => adjust({ order, after: undefined })}
        />
        <Choice
          label="State"
          value={params.get("state") ?? ""}
          options={Object.keys(STATES)}
          none="any"
          set={(state) => adjust({ state, after: undefined })}
        />
      </div>
      <ul class="specs" onKeyDown={walk} aria-label="Tools">
        {value.tools.map((spec) => (
          <Line key={spec.id} tool={spec} off={!spec.enabled} calls={value.calls?.[spec.id]} />
        ))}
      </ul>
      {value.tools.length === 0 && <p class="note">No tool is like this.</p>}
      <p class="row paging">
        {cursor && (
          <button type="button" onClick={back}>
            {trail.length > 0 ? "Back" : "To the start"}
          </button>
        )}
        {next !== null && (
          <button type="button" onClick={forward}>
            Next {PAGE}
          </button>
        )}
      </p>
    </>
  );
}

function Matches({ words }: { words: string }): VNode {
  const body = { query: words, k: FOUND, gate: false, explain: true, scope: scope() };
  const { value, trouble, waiting, again } = useAnswer(
    (signal) => call<Found>("v1/tools/search", { method: "POST", body, signal }),
    [asked.value, JSON.stringify(body)],
  );
  useEffect(() => {
    if (value) announce(`${several(value.tools.length, "tool")} found`);
  }, [value]);
  if (trouble) return <TroubleNote trouble={trouble} again={again} />;
  if (value === undefined) return <Waiting what="Searching" />;
  const unmatched = value.unmatched_terms ?? [];
  return (
    <>
      <ul class={waiting ? "specs stale" : "specs"} onKeyDown={walk} aria-label="Tools found">
        {value.tools.map((hit) => (
          <Line key={hit.id} tool={hit} sure={hit.probability} />
        ))}
      </ul>
      {value.tools.length === 0 && <p class="note">No tool has anything of this.</p>}
      <Spelling words={value.spelling ?? {}} />
      {unmatched.length > 0 && (
        <p class="note">
          In no tool: <Untrusted text={unmatched.join(", ")} />
        </p>
      )}
    </>
  );
}

interface LineProps {
  tool: Pick<Spec, "id" | "name" | "server" | "description">;
  off?: boolean;
  sure?: number | null;
  calls?: number | undefined;
}

function Line({ tool, off = false, sure, calls }: LineProps): VNode {
  const { params } = place.value;
  const here = Object.fromEntries([...params.keys()].map((name) => [name, params.getAll(name)]));
  return (
    <li>
      <a class="spec-line" data-stop href={link("registry", { ...here, tool: tool.id })}>
        <span class="hit-title">
          <b>
            <Untrusted text={tool.name} />
          </b>
          {tool.server && (
            <small class="server">
              <Untrusted text={tool.server} />
            </small>
          )}
          {off && <span class="tag">disabled</span>}
          {sure !== undefined && sure !== null && <span class="figure">{percent(sure)}</span>}
          {calls !== undefined && <span class="figure">{several(calls, "call")}</span>}
        </span>
        <span class="hit-about">
          <Untrusted text={firstLine(tool.description)} />
        </span>
      </a>
    </li>
  );
}
