/** Tools of a turn for the AI SDK: definitions for `generateText`, `streamText` and agents. */

import { type JSONSchema7, type ToolExecutionOptions, type ToolSet, dynamicTool, jsonSchema } from "ai";
import type { OutcomeBody, RouteBody, RoutedTurn, Toolcrib } from "./index.js";

/** Calls a tool, by its id in toolcrib (`server/name`), and gives its result, or a stream of them. */
export type Execute = (
  id: string,
  input: Readonly<Record<string, unknown>>,
  options: ToolExecutionOptions<unknown>,
) => unknown;

/** The tools of a turn by the names that a model calls them, and the decision they come from. */
export interface TurnTools {
  readonly tools: ToolSet;
  /** `decision.tools.names` has the id of each name, `decision.tools.verdict` the gate's word. */
  readonly decision: RoutedTurn;
}

interface Definition {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JSONSchema7;
}

/**
 * The tools that a turn needs, best first.
 *
 * With `execute`, a tool that the model calls is called by it, and the service is told how the
 * call ended. Without it, calls are the caller's, as the AI SDK has it.
 */
export async function tools(
  crib: Toolcrib,
  turn: Omit<RouteBody, "shape">,
  execute?: Execute,
): Promise<TurnTools> {
  const decision = await crib.post("/v1/route", { body: { ...turn, shape: "anthropic" } });
  const defined = decision.tools.tools as unknown as readonly Definition[];
  const made = defined.map(({ name, description, input_schema }) => {
    const id = decision.tools.names?.[name] ?? name;
    const call = execute && reported(crib, decision.id, id, execute);
    const inputSchema = jsonSchema(input_schema);
    return [name, dynamicTool({ description, inputSchema, ...(call && { execute: call }) })];
  });
  return { tools: Object.fromEntries(made) as ToolSet, decision };
}

/** For so long a result may wait for its report. */
const MAX_REPORT_MS = 2000;

/** `execute` for one tool, with a word to the service on how it ended. */
function reported(crib: Toolcrib, decision_id: string, tool: string, execute: Execute) {
  return (input: unknown, options: ToolExecutionOptions<unknown>) => {
    const began = performance.now();
    const ended = async (outcome: "success" | "failure") => {
      // Who goes away says nothing of the tool.
      if (outcome === "failure" && options.abortSignal?.aborted) return;
      await report(crib, { decision_id, tool, outcome, took_ms: performance.now() - began });
    };
    try {
      const result = execute(tool, input as Record<string, unknown>, options);
      // The AI SDK sees a stream only if it is no promise.
      return isStream(result) ? streamed(result, ended) : settled(result, ended);
    } catch (error) {
      return settled(Promise.reject(error), ended);
    }
  };
}

type Ended = (outcome: "success" | "failure") => Promise<void>;

function isStream(result: unknown): result is AsyncIterable<unknown> {
  return typeof result === "object" && result !== null && Symbol.asyncIterator in result;
}

async function settled(given: unknown, ended: Ended): Promise<unknown> {
  let result: unknown;
  try {
    result = await given;
  } catch (error) {
    await ended("failure");
    throw error;
  }
  await ended("success");
  return result;
}

async function* streamed(results: AsyncIterable<unknown>, ended: Ended) {
  try {
    yield* results;
  } catch (error) {
    await ended("failure");
    throw error;
  }
  await ended("success");
}

/** An agent goes on where the service cannot be told, or hangs. */
async function report(crib: Toolcrib, body: OutcomeBody): Promise<void> {
  try {
    await crib.post("/v1/outcomes", { body, signal: AbortSignal.timeout(MAX_REPORT_MS) });
  } catch (error) {
    console.warn(`how a call of ${body.tool} ended could not be reported: ${error}`);
  }
}
