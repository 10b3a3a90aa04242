// Calls a server as the user of a line does, with one published client, and prints what the client got. Its configuration is one of
//
//   {"sdk":"<folder of the SDK>","transport":"http","url":"http://…","headers":{"X-API-Key":"…"}}
//   {"sdk":"<folder of the SDK>","transport":"stdio","command":"dragoman","args":["…"],"env":{},"stderr":"<file>"}
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { patient } from "./sdk1.mjs";

export async function run(config, print) {
  const load = (file) => import(pathToFileURL(join(config.sdk, "dist", "esm", "client", file)));
  const { Client } = await load("index.js");
  const client = patient(new Client({ name: "dragoman-e2e", version: "1.0.0" }, { capabilities: {} }));
  const requestInit = { headers: config.headers ?? {} };
  let transport, stderr;
  if (config.transport === "http") {
    const { StreamableHTTPClientTransport } = await load("streamableHttp.js");
    transport = new StreamableHTTPClientTransport(new URL(config.url), { requestInit });
  } else if (config.transport === "sse") {
    globalThis.EventSource = createRequire(join(config.sdk, "package.json"))("eventsource").EventSource;
    const { SSEClientTransport } = await load("sse.js");
    transport = new SSEClientTransport(new URL(config.url), { requestInit });
  } else {
    const { StdioClientTransport, getDefaultEnvironment } = await load("stdio.js");
    const env = { ...getDefaultEnvironment(), ...config.env };
    stderr = openSync(config.stderr, "a"); // of what the client starts
    transport = new StdioClientTransport({ command: config.command, args: config.args, env, stderr });
  }

  const got = {};
  const call = async (name, args) => {
    try {
      return (await client.callTool({ name, arguments: args })).content;
    } catch (e) {
      return { code: e?.code };
    }
  };
  try {
    await client.connect(transport);
    got.server = client.getServerVersion()?.name;
    got.tools = (await client.listTools()).tools.map(({ name }) => name).sort();
    got.echo = await call("echo", { text: "café \u2028 </script>" });
    got.variable = await call("variable", { name: "GITHUB_TOKEN" });
    got.header = await call("header", { name: "Authorization" });
    got.wrong = await call("no-such-tool", {});
    got.order = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(async (n) => [n, await call("echo", { text: String(n) })]));
  } catch (e) {
    got.failed = String(e?.code ?? e?.name ?? e);
  }
  await client.close().catch((e) => { got.failed ??= String(e?.code ?? e?.name ?? e); });
  if (stderr !== undefined) closeSync(stderr);
  print(got);
}
