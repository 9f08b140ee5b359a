/** An agent of the AI SDK gets the tools of its turn, and the service hears how its calls ended. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { generateText } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { type Execute, tools } from "toolcrib/ai";
import { opened, TOOLS } from "./service.js";

const crib = opened({ namespace: "ai" });

before(async () => {
  await crib.post("/v1/tools", { body: { tools: TOOLS } });
});

/** A turn whose model calls the first tool that it is given, and what came of the call. */
async function answered(execute?: Execute, abortSignal?: AbortSignal) {
  const turn = await tools(crib, { text: "write a mail", k: 2 }, execute);
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: 1, text: 1, reasoning: undefined },
  };
  const model = new MockLanguageModelV4({
    doGenerate: async ({ tools: given }) => ({
      content: [
        { type: "tool-call", toolCallId: "1", toolName: given?.[0]?.name ?? "", input: '{"to":"Ana"}' },
      ],
      finishReason: { unified: "tool-calls", raw: undefined },
      usage,
      warnings: [],
    }),
  });
  const asked = { model, tools: turn.tools, prompt: "write a mail" };
  const result = await generateText({ ...asked, ...(abortSignal && { abortSignal }) });
  const path = { id: turn.decision.id };
  const { outcomes } = await crib.get("/v1/decisions/{id}", { params: { path } });
  return { turn, result, outcomes, given: model.doGenerateCalls[0]?.tools };
}

test("a model is given the definitions of the turn's tools", async () => {
  const { turn, given } = await answered();
  assert.deepEqual(
    given?.map((each) => each.name),
    turn.decision.tools.tools.map((each) => each.name),
  );
  assert.deepEqual(given?.[0], {
    type: "function",
    name: "mail__send_mail",
    description: TOOLS[0]?.description,
    inputSchema: TOOLS[0]?.input_schema,
  });
});

test("without a function to execute, calls are the caller's", async () => {
  const { turn, result, outcomes } = await answered();
  assert.equal(turn.decision.tools.names?.[result.toolCalls[0]?.toolName ?? ""], "mail/send_mail");
  assert.deepEqual(result.toolResults, []);
  assert.deepEqual(outcomes, []);
});

test("a call reaches the function by the tool's id, and its success is reported", async () => {
  const { result, outcomes } = await answered((id, input) => ({ id, input }));
  assert.deepEqual(result.toolResults[0]?.output, { id: "mail/send_mail", input: { to: "Ana" } });
  assert.deepEqual(
    outcomes.map(({ tool, outcome }) => [tool, outcome]),
    [["mail/send_mail", "success"]],
  );
});

test("a call that fails is an error to the model, and reported", async () => {
  const { result, outcomes } = await answered(() => {
    throw new Error("the server is down");
  });
  assert.equal(result.content.at(-1)?.type, "tool-error");
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ["failure"],
  );
});

test("a call that is aborted says nothing of its tool", async () => {
  const leaving = new AbortController();
  const { outcomes } = await answered(() => {
    leaving.abort();
    throw leaving.signal.reason;
  }, leaving.signal);
  assert.deepEqual(outcomes, []);
});

test("a stream of results is one to the AI SDK, and reported at its end", async () => {
  let reached = false;
  const { result, outcomes } = await answered(async function* () {
    yield "half";
    reached = true;
    yield "whole";
  });
  assert.ok(reached);
  assert.equal(result.toolResults[0]?.output, "whole");
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ["success"],
  );
});

test("a stream that breaks is a failure", async () => {
  const { outcomes } = await answered(async function* () {
    yield "half";
    throw new Error("the server is down");
  });
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ["failure"],
  );
});

test("a service that hangs does not keep a result back for ever", async () => {
  const hung = (request: Request) =>
    request.url.endsWith("/v1/outcomes")
      ? new Promise<Response>((_, stop) => {
          // A socket would keep the process alive; the time limit of a signal does not.
          const open = setInterval(() => {}, 1000);
          request.signal.addEventListener("abort", () => {
            clearInterval(open);
            stop(request.signal.reason);
          });
        })
      : fetch(request);
  const turn = await tools(opened({ namespace: "ai", fetch: hung }), { text: "a mail" }, () => "sent");
  const execute = turn.tools["mail__send_mail"]?.execute;
  const options = { toolCallId: "1", messages: [], context: {} };
  assert.equal(await execute?.({ to: "Ana" }, options), "sent");
});

test("the example runs", async () => {
  await opened().post("/v1/tools", { body: { tools: TOOLS } });
  const run = await promisify(execFile)(process.execPath, ["dist/examples/agent.js"]);
  assert.match(run.stdout, /^tools of this turn: .*send_mail/);
  assert.match(run.stdout, /^calling \S+ with /m);
  assert.match(run.stdout, /^Ana knows\.$/m);
});
