// Calls tools with one published client, as it is told.
//
//   node caller.mjs '{"sdk":"<folder of the SDK>","transport":"http","url":"http://…"}'
//   node caller.mjs '{"sdk":"<folder of the SDK>","transport":"stdio","command":"dragoman","args":["…"]}'
//
// It first prints the names of the tools. Then each line on stdin is a call, {"name":…,"arguments":…}, and each line on
// stdout its { result } or { error }.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { createInterface } from "node:readline";

const config = JSON.parse(process.argv[2]);
const dist = join(config.sdk, "dist");
const load = (file) => import(pathToFileURL(join(existsSync(join(dist, "esm")) ? join(dist, "esm") : dist, file)));
const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

let transport;
if (config.transport === "http") {
  const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(config.url));
} else if (config.transport === "sse") {
  globalThis.EventSource ??= createRequire(join(config.sdk, "package.json"))("eventsource").EventSource;
  const { SSEClientTransport } = await load("client/sse.js");
  transport = new SSEClientTransport(new URL(config.url));
} else {
  const { StdioClientTransport } = await load("client/stdio.js");
  transport = new StdioClientTransport({ command: config.command, args: config.args, stderr: "inherit" });
}

const { Client } = await load("client/index.js");
const client = new Client({ name: "dragoman-e2e", version: "1.0.0" }, { capabilities: {} });
await client.connect(transport);
print({ tools: (await client.listTools()).tools.map(({ name }) => name) });
for await (const line of createInterface({ input: process.stdin })) {
  try {
    print({ result: await client.callTool(JSON.parse(line)) });
  } catch (e) {
    print({ error: String(e?.message ?? e) });
  }
}
await client.close();
process.exit(0); // early SDKs leave an EventSource open
