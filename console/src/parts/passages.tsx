/** Passages with their citations, and the collections that were asked. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Asked, Knowledge, PassageHit } from "../api/types";
import { walk } from "../state/arrows";
import type { Draft } from "../state/draft";
import { link } from "../state/place";
import type { Signal } from "../state/signal";
import { percent, score } from "../words/figures";
import { PASSAGE_VERDICTS } from "../words/stages";
import { Judge } from "./judge";
import { Untrusted } from "./untrusted";

interface Props {
  knowledge: Knowledge;
  draft?: Signal<Draft>;
}

/** The verdict on a question to the collections. */
export function KnowledgeVerdict({ knowledge }: { knowledge: Knowledge }): VNode {
  const { verdict, reason, fit, threshold } = knowledge;
  return (
    <p class="verdict-line">
      <span class={`tag verdict-${verdict}`}>{verdict}</span> {PASSAGE_VERDICTS[verdict]}
      {reason && (
        <>
          : <Untrusted text={reason} />
        </>
      )}
      .
      {fit !== null && (
        <span class="note">
          {" "}
          Any collection fits: {percent(fit)}
          {threshold !== null && `, threshold ${percent(threshold)}`}.
        </span>
      )}
    </p>
  );
}

/** Collections by how likely each is the right one. */
export function Collections({ collections, draft }: {
  collections: readonly Asked[];
  draft?: Signal<Draft> | undefined;
}): VNode | null {
  if (collections.length === 0) return null;
  return (
    <ul class="collections" aria-label="Collections by probability">
      {collections.map((each) => (
        <li key={each.id}>
          <a href={link("collections", { collection: each.id })}>
            <Untrusted text={each.id} />
          </a>
          <span class="bar sure" aria-hidden="true">
            <i class="segment" style={{ left: 0, width: `${100 * each.confidence}%` }} />
          </span>
          <span class="figure">{percent(each.confidence)}</span>
          {draft && (
            <Judge draft={draft} what="collections" id={each.id} name={`collection ${each.id}`} />
          )}
        </li>
      ))}
    </ul>
  );
}

export function Passages({ knowledge, draft }: Props): VNode {
  return (
    <ol class="passages" onKeyDown={walk}>
      {knowledge.passages.map((passage, place) => (
        <Passage key={passage.id} passage={passage} draft={draft} first={place === 0} />
      ))}
    </ol>
  );
}

function Passage({ passage, draft, first }: {
  passage: PassageHit;
  draft?: Signal<Draft> | undefined;
  first: boolean;
}): VNode {
  const [open, setOpen] = useState(first);
  const heading = passage.title.join(" › ") || passage.source;
  return (
    <li class="passage">
      <button
        type="button"
        class="passage-head"
        data-stop
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <b>
          <Untrusted text={heading} />
        </b>
        <span class="figure" title="score, comparable within this answer only">
          {score(passage.score)}
        </span>
      </button>
      <p class={open ? "passage-text open" : "passage-text"}>
        <Untrusted text={passage.text} />
      </p>
      <p class="citation">
        <cite>
          <Untrusted text={passage.citation} />
        </cite>
        <a class="tag" href={link("collections", { collection: passage.collection })}>
          <Untrusted text={passage.collection} />
        </a>
        {draft && (
          <Judge
            draft={draft}
            what="collections"
            id={passage.collection}
            name={`passage ${passage.citation}`}
          />
        )}
      </p>
    </li>
  );
}
