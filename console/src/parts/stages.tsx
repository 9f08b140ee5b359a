/** Where the time went: a waterfall of stages, with what was left out. */

import type { VNode } from "preact";
import type { Counts } from "../api/types";
import { millis } from "../words/figures";
import { degradedWords, stageWords } from "../words/stages";

interface Props {
  title: string;
  took: Counts;
  degraded?: readonly string[];
}

interface Bar {
  stage: string;
  from: number;
  ms: number;
}

export function Waterfall({ title, took, degraded = [] }: Props): VNode {
  const { bars, total } = laidOut(took);
  const left = degraded.filter((name) => !(name in took));
  const said = bars.map((bar) => `${bar.stage} ${millis(bar.ms)}`).join(", ");
  return (
    <figure class="waterfall">
      <figcaption>
        {title} <span class="figure">{millis(total)}</span>
      </figcaption>
      <ol aria-label={`${title}: ${said}`}>
        {bars.map((bar) => (
          <Stage key={bar.stage} bar={bar} total={total} late={degraded.includes(bar.stage)} />
        ))}
        {left.map((name) => (
          <li key={name} class="left-out">
            <span class="stage-name">{name}</span>
            <span class="stage-line why">{degradedWords(name)}</span>
          </li>
        ))}
      </ol>
    </figure>
  );
}

function Stage({ bar, total, late }: { bar: Bar; total: number; late: boolean }): VNode {
  const scale = 100 / Math.max(total, 1e-9);
  const place = { left: `${bar.from * scale}%`, width: `${bar.ms * scale}%` };
  return (
    <li class={late ? "late" : ""} title={late ? degradedWords(bar.stage) : stageWords(bar.stage)}>
      <span class="stage-name">{bar.stage}</span>
      <span class="stage-line">
        <i style={place} />
      </span>
      <span class="figure">{millis(bar.ms)}</span>
      {late && <span class="why">{degradedWords(bar.stage)}</span>}
    </li>
  );
}

/** One stage behind the other, as they run; what no stage has is "other". */
function laidOut(took: Counts): { bars: Bar[]; total: number } {
  const bars: Bar[] = [];
  let from = 0;
  for (const [stage, ms] of Object.entries(took)) {
    if (stage === "total") continue;
    bars.push({ stage, from, ms });
    from += ms;
  }
  const total = Math.max(took["total"] ?? from, from);
  if (total - from > 0.05 * total) bars.push({ stage: "other", from, ms: total - from });
  return { bars, total };
}
