// Calls tools with one published client.
//
//   node caller.mjs '{"sdk":"<folder of the SDK>","transport":"http","url":"http://…"}'
//   node caller.mjs '{"sdk":"<folder of the SDK>","transport":"stdio","command":"dragoman","args":["…"]}'
//   node caller.mjs '{"sdk":"<folder of the client>","mode":{"pin":"2026-07-28"},"transport":"http","url":"http://…"}'
//
// The last is of the 2.x line (sdk2.mjs), the others of the 1.x line (sdk1.mjs). The client declares no capabilities.
//
// It first prints the names of the tools. Then each line on stdin is a call, {"name":…,"arguments":…}, and each line on
// stdout its { result } or { error }.
import { createInterface } from "node:readline";

const config = JSON.parse(process.argv[2]);
const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const { open } = await import(config.mode ? "./sdk2.mjs" : "./sdk1.mjs");
const { client, transport } = await open(config);
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
