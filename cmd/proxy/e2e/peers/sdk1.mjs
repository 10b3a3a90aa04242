// The published SDK as one package, versions 1.x.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

// patience is for every request in the place of the SDKs' own limit of 60 s, which a busy machine exceeds.
export const patience = { timeout: 600_000 };

// proxyPatience is the proxy's patience with the start of a server, which it would not inherit: the SDKs start a command with
// few variables.
export const proxyPatience = { DRAGOMAN_UPSTREAM_HANDSHAKE_TIMEOUT: "10m" };

// patient gives all requests of a client patience, also those for which its SDK has no parameter. It returns the client.
export function patient(client) {
  const { request } = client;
  client.request = (r, schema, options) => request.call(client, r, schema, { ...patience, ...options });
  return client;
}

// listsOf returns the methods of a client that read lists.
export const listsOf = (client) => ({
  "tools/list": (p, o) => client.listTools(p, o),
  "prompts/list": (p, o) => client.listPrompts(p, o),
  "resources/list": (p, o) => client.listResources(p, o),
  "resources/templates/list": (p, o) => client.listResourceTemplates(p, o),
});

// open creates a client and its transport. answers answers the server's requests; without it the client declares no
// capabilities.
export async function open(config, answers) {
  const dist = join(config.sdk, "dist");
  const load = (file) => import(pathToFileURL(join(existsSync(join(dist, "esm")) ? join(dist, "esm") : dist, file)));
  const { Client } = await load("client/index.js");
  const types = await load("types.js");

  const elicits = { "2025-06-18": {}, "2025-11-25": { form: {}, url: {} } }[config.revision];
  const capabilities = answers ? { sampling: {}, roots: { listChanged: true }, ...(elicits && { elicitation: elicits }) } : {};
  const client = patient(new Client({ name: "dragoman-e2e", version: "1.0.0" }, { capabilities }));
  if (answers) {
    client.setRequestHandler(types.ListRootsRequestSchema, answers.roots);
    client.setRequestHandler(types.CreateMessageRequestSchema, answers.sample);
  }
  if (answers && elicits) client.setRequestHandler(types.ElicitRequestSchema, answers.elicit);

  let transport;
  if (config.transport === "http") {
    const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
    transport = new StreamableHTTPClientTransport(new URL(config.url));
  } else if (config.transport === "sse") {
    globalThis.EventSource = createRequire(join(config.sdk, "package.json"))("eventsource").EventSource; // which early SDKs leave to others
    const { SSEClientTransport } = await load("client/sse.js");
    transport = new SSEClientTransport(new URL(config.url));
  } else {
    const { StdioClientTransport, getDefaultEnvironment } = await load("client/stdio.js");
    const env = { ...getDefaultEnvironment(), ...proxyPatience };
    transport = new StdioClientTransport({ command: config.command, args: config.args, env, stderr: config.stderr ?? "inherit" });
  }
  return {
    client,
    transport,
    request: (method, params, options) => client.request({ method, ...(params && { params }) }, types.ResultSchema, options),
    calls: {
      ping: (_, o) => client.ping(o),
      "tools/call": (p, o) => client.callTool(p, undefined, o),
      "prompts/get": (p, o) => client.getPrompt(p, o),
      "resources/read": (p, o) => client.readResource(p, o),
      "resources/subscribe": (p, o) => client.subscribeResource(p, o),
      "resources/unsubscribe": (p, o) => client.unsubscribeResource(p, o),
      "completion/complete": (p, o) => client.complete(p, o),
      "logging/setLevel": (p, o) => client.setLoggingLevel(p.level, o),
    },
  };
}
