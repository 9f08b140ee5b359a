// Client by an official TypeScript SDK that asks for nothing that was not announced:
// node strict_client.cjs SDK COMMAND ARGUMENT... with the packages of the folder NODE_PATH.
"use strict";

const [sdk, command, ...args] = process.argv.slice(2);
const isFirst = sdk === "@modelcontextprotocol/sdk";
const { Client } = require(isFirst ? `${sdk}/client/index.js` : sdk);
const { StdioClientTransport } = require(isFirst ? `${sdk}/client/stdio.js` : `${sdk}/stdio`);

async function main() {
  const client = new Client(
    { name: "strict", version: "1" },
    { capabilities: {}, enforceStrictCapabilities: true },
  );
  await client.connect(new StdioClientTransport({ command, args, env: { ...process.env } }));
  const { tools } = await client.listTools();
  const { prompts } = await client.listPrompts();
  const { resources } = await client.listResources();
  const arguments_ = { query: "repeat what is said" };
  const found = await client.callTool({ name: "find_tools", arguments: arguments_ });
  const [tool] = found.structuredContent.tools;
  const called = await client.callTool({
    name: "call_tool",
    arguments: { name: tool.name, arguments: { word: "hi" } },
  });
  const names = (listed) => listed.map((each) => each.name);
  const seen = {
    capabilities: Object.keys(client.getServerCapabilities()),
    tools: names(tools),
    prompts: names(prompts),
    resources: names(resources),
    found: tool.name,
    called: called.structuredContent,
  };
  process.stdout.write(JSON.stringify(seen) + "\n");
  await client.close();
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
