/** The client asks a real service, gives its answers as they are, and throws its problems. */

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { ToolcribError } from "toolcrib";
import { opened, TOOLS } from "./service.js";

const crib = opened({ namespace: "client" });

before(async () => {
  const report = await crib.post("/v1/tools", { body: { tools: TOOLS } });
  assert.equal(report.added, TOOLS.length);
});

/** What is wrong with the promise's request, in the service's words. */
async function refusal(asked: Promise<unknown>): Promise<ToolcribError> {
  const error: unknown = await asked.then(
    () => assert.fail("it was answered"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ToolcribError);
  return error;
}

test("tools are found, best first, with the gate's verdict", async () => {
  const found = await crib.findTools({ query: "write a mail", k: 2 });
  assert.equal(found.tools[0]?.id, "mail/send_mail");
  assert.equal(typeof found.verdict, "string");
});

test("a turn is routed", async () => {
  const decision = await crib.route({ text: "is it going to rain?" });
  assert.equal(decision.tools.tools[0]?.id, "weather/forecast");
});

test("an id may have slashes in its path", async () => {
  const id = "chat/post/message";
  const tool = await crib.get("/v1/tools/{id}", { params: { path: { id } } });
  assert.equal(tool.id, id);
});

test("lists of a query are repeated", async () => {
  const query = { server: ["mail", "chat"] };
  const page = await crib.get("/v1/tools", { params: { query } });
  assert.deepEqual(page.tools.map(({ server }) => server).sort(), ["chat", "mail"]);
});

test("an answer without a body is undefined", async () => {
  const other = opened({ namespace: "emptied" });
  await other.post("/v1/tools", { body: { tools: TOOLS.slice(0, 1) } });
  const path = { id: "mail/send_mail" };
  assert.equal(await other.delete("/v1/tools/{id}", { params: { path } }), undefined);
});

test("an answer that is no JSON is text", async () => {
  assert.match(await crib.get("/metrics"), /^# /m);
});

test("namespaces are apart", async () => {
  const facets = await opened({ namespace: "apart" }).get("/v1/facets");
  assert.equal(facets.tools, 0);
});

test("a problem names its kind, its status and what is near", async () => {
  const error = await refusal(
    crib.get("/v1/tools/{id}", { params: { path: { id: "mail/send_mial" } } }),
  );
  assert.equal(error.kind, "unknown-tool");
  assert.equal(error.status, 404);
  assert.deepEqual(error.problem.nearest, ["mail/send_mail"]);
  assert.match(error.message, /mail\/send_mial/);
});

test("a wrong request says where it is wrong", async () => {
  // @ts-expect-error: the compiler says so, too.
  const error = await refusal(crib.post("/v1/tools/search", { body: { query: "mail", q: 1 } }));
  assert.equal(error.kind, "query");
  assert.match(JSON.stringify(error.problem.errors), /"q"/);
});

test("a key that is unknown is refused", async () => {
  const error = await refusal(opened({ apiKey: "tc_unknown" }).get("/v1/me"));
  assert.equal(error.kind, "unauthenticated");
});

const JSON_TYPE = "application/json";
for (const [what, status, type, body] of [
  ["a proxy's page", 502, "text/html", "<h1>Bad gateway</h1>"],
  ["a proxy's page that is called JSON", 502, JSON_TYPE, "<h1>Bad gateway</h1>"],
  ["nothing", 502, JSON_TYPE, ""],
  ["another service's problem", 401, JSON_TYPE, '{"type": "error", "message": "who are you?"}'],
  ["a page in place of an answer", 200, "text/html", "<h1>Log in</h1>"],
] as const) {
  test(`${what} is an error without a kind`, async () => {
    const headers = { "Content-Type": type };
    const client = opened({ fetch: async () => new Response(body, { status, headers }) });
    for (const asked of [client.get("/v1/me"), client.get("/metrics")]) {
      const error = await refusal(asked);
      assert.deepEqual([error.kind, error.status], ["", status]);
      assert.match(error.message, /not as toolcrib does/);
    }
  });
}

/** Answers so often that it is busy, before it asks the service. */
function busy(times: number, retryAfter: string) {
  let left = times;
  return async (request: Request) =>
    left-- > 0
      ? Response.json({}, { status: 503, headers: { "Retry-After": retryAfter } })
      : fetch(request);
}

test("a busy service is asked again, with the same body", async () => {
  const patient = opened({ namespace: "client", fetch: busy(2, "0") });
  const found = await patient.findTools({ query: "write a mail" });
  assert.equal(found.tools[0]?.id, "mail/send_mail");
});

for (const [what, options] of [
  ["too often", { fetch: busy(3, "0") }],
  ["for too long", { fetch: busy(1, "3600") }],
  ["and no retries are wanted", { fetch: busy(1, "0"), retries: 0 }],
] as const) {
  test(`a service that is busy ${what} is an error`, async () => {
    assert.equal((await refusal(opened(options).get("/v1/me"))).status, 503);
  });
}

test("who waits for a busy service can go away", async () => {
  const leaving = new AbortController();
  const fetch = async () => {
    setTimeout(() => leaving.abort());
    return Response.json({}, { status: 503, headers: { "Retry-After": "9" } });
  };
  const asked = opened({ fetch }).findTools({ query: "x" }, { signal: leaving.signal });
  await assert.rejects(asked, { name: "AbortError" });
});
