/** Bodies of documents: what they are, and what each answers to a question. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call";
import type { Collection, Knowledge } from "../api/types";
import { Choice } from "../parts/choice";
import { Collections as Ranked, KnowledgeVerdict, Passages } from "../parts/passages";
import { Fact } from "../parts/spec";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer } from "../state/answers";
import { toResults } from "../state/arrows";
import { adjust, place } from "../state/place";
import { asked } from "../state/session";
import { several } from "../words/figures";
import { Command } from "./empty";

export function Collections(): VNode {
  const { value, trouble, again } = useAnswer(
    (signal) => call<{ collections: Collection[] }>("v1/collections", { signal }),
    [asked.value],
  );
  const { params } = place.value;
  const chosen = params.get("collection") ?? "";
  const q = params.get("q") ?? "";
  const all = value?.collections ?? [];
  const passages = all.reduce((total, each) => total + each.passages, 0);
  return (
    <>
      <h1>
        Collections {value && <small>{several(passages, "passage")}</small>}
      </h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value && all.length === 0 && <NoCollections />}
      {all.length > 0 && (
        <>
          <AskOne all={all} chosen={chosen} q={q} />
          {q && <Answers q={q} collection={chosen} />}
          <ul class="collection-list">
            {all
              .filter((each) => !chosen || each.name === chosen)
              .map((each) => (
                <CollectionSheet key={each.name} collection={each} alone={each.name === chosen} />
              ))}
          </ul>
          {chosen && (
            <p>
              <button type="button" onClick={() => adjust({ collection: undefined })}>
                Show all {several(all.length, "collection")}
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}

function NoCollections(): VNode {
  return (
    <section class="empty">
      <h2>There are no collections</h2>
      <p>Passages come from documents. Put some in:</p>
      <Command text="toolcrib index-docs docs/ --collection handbook" />
    </section>
  );
}

function AskOne(props: { all: readonly Collection[]; chosen: string; q: string }): VNode {
  const { all, chosen, q } = props;
  const [typed, setTyped] = useState(q);
  useEffect(() => setTyped(q), [q]);
  const send = (event: Event): void => {
    event.preventDefault();
    adjust({ q: typed.trim() });
  };
  return (
    <form class="ask-one" onSubmit={send}>
      <label class="field">
        Question
        <input
          type="search"
          data-question
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={toResults}
        />
      </label>
      <Choice
        label="to"
        value={chosen}
        options={all.map((each) => each.name)}
        none="whichever fits"
        set={(collection) => adjust({ collection })}
      />
      <button type="submit" class="strong">
        Ask
      </button>
    </form>
  );
}

function Answers({ q, collection }: { q: string; collection: string }): VNode {
  const scope = collection ? { collections: [collection] } : undefined;
  const body = { query: q, scope };
  const { value, trouble, waiting, again } = useAnswer(
    (signal) => call<Knowledge>("v1/knowledge/search", { method: "POST", body, signal }),
    [asked.value, q, collection],
  );
  useEffect(() => {
    if (value) announce(`${several(value.passages.length, "passage")} found`);
  }, [value]);
  if (trouble) return <TroubleNote trouble={trouble} again={again} />;
  if (value === undefined) return <Waiting what="Searching" />;
  return (
    <section class={waiting ? "stale" : ""} aria-label="Answer">
      <KnowledgeVerdict knowledge={value} />
      <div class="knowledge">
        <Ranked collections={value.collections} />
        {value.passages.length > 0 && <Passages key={q} knowledge={value} />}
      </div>
    </section>
  );
}

function CollectionSheet(props: { collection: Collection; alone: boolean }): VNode {
  const { collection, alone } = props;
  return (
    <li class="collection">
      <h2>
        <button
          type="button"
          class="link"
          data-stop
          aria-pressed={alone}
          onClick={() => adjust({ collection: alone ? undefined : collection.name })}
        >
          <Untrusted text={collection.name} />
        </button>{" "}
        <small>{several(collection.passages, "passage")}</small>
      </h2>
      <p>
        {collection.description ? <Untrusted text={collection.description} /> : "Not described."}
      </p>
      <dl class="facts">
        <Fact name="sensitivity">{collection.sensitivity}</Fact>
        {collection.priority !== 0 && <Fact name="priority">{collection.priority}</Fact>}
        {collection.fallback && <Fact name="asked when none fits">yes</Fact>}
        {collection.answers.length > 0 && (
          <Fact name="always answers">
            <Untrusted text={collection.answers.map((pair) => pair.join(" + ")).join(", ")} />
          </Fact>
        )}
      </dl>
      {collection.examples.length > 0 && (
        <details>
          <summary>{several(collection.examples.length, "question")} that it answers</summary>
          <ul>
            {collection.examples.map((example, at) => (
              <li key={at}>
                <Untrusted text={example} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </li>
  );
}
