/** Where a turn goes: the five ways, the one that was taken, and the one first guessed. */

import type { VNode } from "preact";
import { type Route, type RouteKind, ROUTES } from "../api/types";
import type { Draft } from "../state/draft";
import type { Signal } from "../state/signal";
import { percent } from "../words/figures";
import { ROUTE_WORDS } from "../words/stages";
import { Verdict } from "./judge";
import { Untrusted } from "./untrusted";

interface Props {
  route: Omit<Route, "reason"> & { reason?: string };
  draft: Signal<Draft>;
}

export function RoutePicture({ route, draft }: Props): VNode {
  const said = draft.value.route;
  const say = (kind: RouteKind | undefined): void => {
    draft.value = { ...draft.value, route: kind };
  };
  const isRight = said === undefined ? undefined : said === route.kind;
  const others = ROUTES.filter((kind) => kind !== route.kind);
  return (
    <div class="route">
      <p class="route-kind">
        <b>{route.kind}</b>
        <span>{percent(route.confidence)}</span>
        <span class="judge">
          <Verdict
            says={true}
            said={isRight}
            name="route"
            press={() => say(isRight === true ? undefined : route.kind)}
          />
          <Verdict
            says={false}
            said={isRight}
            name="route"
            press={() => say(isRight === false ? undefined : others[0])}
          />
        </span>
      </p>
      <Ways route={route} />
      <p class="reason">
        {route.reason ? <Untrusted text={route.reason} /> : ROUTE_WORDS[route.kind]}
        {route.corrected_from && (
          <span class="note">
            {" "}
            First guess: <b>{route.corrected_from}</b>, corrected by what was found.
          </span>
        )}
      </p>
      {isRight === false && <Instead others={others} said={said} say={say} />}
    </div>
  );
}

function Ways({ route }: Pick<Props, "route">): VNode {
  return (
    <ol class="ways" aria-label="The five routes">
      {ROUTES.map((kind) => {
        const taken = kind === route.kind;
        const guessed = kind === route.corrected_from;
        return (
          <li
            key={kind}
            class={taken ? "taken" : guessed ? "guessed" : ""}
            aria-current={taken ? "true" : undefined}
            title={ROUTE_WORDS[kind]}
          >
            {kind}
            {guessed && <span class="unseen"> (first guess)</span>}
          </li>
        );
      })}
    </ol>
  );
}

interface InsteadProps {
  others: readonly RouteKind[];
  said: RouteKind | undefined;
  say: (kind: RouteKind) => void;
}

function Instead({ others, said, say }: InsteadProps): VNode {
  return (
    <label class="field">
      Which would have been right?
      <select value={said} onChange={(event) => say(event.currentTarget.value as RouteKind)}>
        {others.map((kind) => (
          <option key={kind} value={kind}>
            {kind}: {ROUTE_WORDS[kind]}
          </option>
        ))}
      </select>
    </label>
  );
}
