/** What use taught of each tool, from whom, what it is worth, and taking it back. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, Trouble } from "../api/call";
import type { LearnedTool, LearningStatus, ServerReplay, UsedTool } from "../api/types";
import { Confirm } from "../parts/dialog";
import { Rows } from "../parts/rows";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { announce } from "../state/announce";
import { useAnswer, useWriting } from "../state/answers";
import { asked } from "../state/session";
import { percent, score, several, when } from "../words/figures";

const OFF = 409;

export function Learning(): VNode {
  const { value, trouble, again } = useAnswer(
    async (signal) => {
      try {
        return await call<LearningStatus>("v1/learning", { signal });
      } catch (error) {
        if (error instanceof Trouble && error.status === OFF) return null;
        throw error;
      }
    },
    [asked.value],
  );
  return (
    <>
      <h1>Learning {value && <small>{several(value.observations, "observation")}</small>}</h1>
      <p class="lede">
        Requests that ended in a successful call re-order later answers, where a replay of the past
        shows no harm.
      </p>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value === null && (
        <p class="calm">
          Nothing is learned here: the setting <code>learning.enabled</code> is off.
        </p>
      )}
      {value && <Learned status={value} done={again} />}
    </>
  );
}

function Learned({ status, done }: { status: LearningStatus; done: () => void }): VNode {
  const { trouble, write } = useWriting();
  const [what, setWhat] = useState<string>();
  const tell = (path: string, body: object | undefined, said: string): Promise<void> =>
    write(async () => {
      await call(path, { method: "POST", body });
      announce(said);
      setWhat(undefined);
      done();
    });
  const turned = status.on ? "off" : "on";
  return (
    <>
      <p class="row">
        <button
          type="button"
          onClick={() => tell("v1/learning", { on: !status.on }, `learning is ${turned}`)}
        >
          Turn {turned}
        </button>
        <button type="button" onClick={() => tell("v1/learning/replay", undefined, "replayed")}>
          Replay
        </button>
        {status.learned_at && <span class="note">chosen {when(status.learned_at)}</span>}
      </p>
      {trouble && <TroubleNote trouble={trouble} />}
      {status.tools.length === 0 && <p class="calm">Nothing was learned yet.</p>}
      {status.servers.length > 0 && <Replays servers={status.servers} />}
      {status.tools.length > 0 && <Tools tools={status.tools} undo={setWhat} />}
      {status.used.length > 0 && <Used tools={status.used} />}
      {!status.orders_steps && (
        <p class="calm">
          What agents call orders no steps: the setting <code>learning.runs</code> is off.
        </p>
      )}
      {what !== undefined && (
        <Confirm
          title="Take it back?"
          verb="Take back"
          danger
          confirm={() => tell("v1/learning/undo", { what }, `taken back: ${what}`)}
          close={() => setWhat(undefined)}
        >
          <p>
            Everything that was learned from or of{" "}
            <b>
              <Untrusted text={what} />
            </b>{" "}
            is forgotten.
          </p>
        </Confirm>
      )}
    </>
  );
}

function Replays({ servers }: { servers: readonly ServerReplay[] }): VNode {
  return (
    <Rows label="Servers" columns={["server", "verdict", "requests", "nDCG before", "after", "p"]}>
      {servers.map((each) => (
        <tr key={each.server}>
          <th scope="row">
            <Untrusted text={each.server || "none"} />
          </th>
          <td>{each.verdict}</td>
          <td>{each.requests}</td>
          <td>{score(each.before)}</td>
          <td>{score(each.after)}</td>
          <td>{each.p.toFixed(2)}</td>
        </tr>
      ))}
    </Rows>
  );
}

/** What agents' runs call, and what they call right after it. */
function Used({ tools }: { tools: readonly UsedTool[] }): VNode {
  return (
    <Rows label="Calls of agents" columns={["agents call", "runs", "and next"]}>
      {tools.map((each) => (
        <tr key={each.tool}>
          <th scope="row">
            <Untrusted text={each.tool} />
          </th>
          <td>{percent(each.runs)}</td>
          <td>
            {Object.entries(each.next).map(([tool, part]) => (
              <div key={tool}>
                <Untrusted text={tool} /> {percent(part)}
              </div>
            ))}
          </td>
        </tr>
      ))}
    </Rows>
  );
}

interface ToolsProps {
  tools: readonly LearnedTool[];
  undo: (what: string) => void;
}

function Tools({ tools, undo }: ToolsProps): VNode {
  return (
    <Rows label="Tools" columns={["tool", "in use", "support", "sessions", "learned from", "on"]}>
      {tools.map((tool) => (
        <tr key={tool.tool}>
          <th scope="row">
            <Back what={tool.tool} undo={undo} />
          </th>
          <td>{tool.live ? "yes" : `no: ${tool.reason}`}</td>
          <td>{percent(tool.support)}</td>
          <td>{tool.sessions}</td>
          <td>
            {Object.entries(tool.by).map(([key, count]) => (
              <div key={key}>
                {key ? <Back what={key} undo={undo} /> : "no key"} {count}
              </div>
            ))}
          </td>
          <td>
            {Object.entries(tool.days).map(([day, count]) => (
              <div key={day}>
                <Back what={day} undo={undo} /> {count}
              </div>
            ))}
          </td>
        </tr>
      ))}
    </Rows>
  );
}

/** A tool, key or day, and the button that takes back what was learned of, from or on it. */
function Back({ what, undo }: { what: string; undo: (what: string) => void }): VNode {
  return (
    <>
      <Untrusted text={what} />{" "}
      <button
        type="button"
        class="quiet"
        aria-label={`Take back ${what}`}
        title={`Take back ${what}`}
        onClick={() => undo(what)}
      >
        ×
      </button>
    </>
  );
}
