// The published packages of the 2.x line.
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { patience, proxyPatience } from "./sdk1.mjs";

const anything = { "~standard": { version: 1, vendor: "e2e", validate: (value) => ({ value }) } };

// open creates a client and its transport. answers answers the server's requests; without it the client declares no
// capabilities. config.mode is how the client chooses the revision: "legacy", "auto", or { pin: revision }.
export async function open(config, answers) {
  const load = (file) => import(pathToFileURL(join(config.sdk, "dist", file)));
  const { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } = await load("index.mjs");
  const capabilities = answers ? { sampling: {}, roots: { listChanged: true }, elicitation: { form: {}, url: {} } } : {};
  const client = new Client({ name: config.me ? `dragoman-e2e-${config.me}` : "dragoman-e2e", version: "1.0.0" }, { capabilities, versionNegotiation: { mode: config.mode } });
  for (const method of ["connect", "listTools", "listPrompts", "listResources", "listResourceTemplates", "callTool"]) {
    const { [method]: act } = client;
    client[method] = (what, options) => act.call(client, what, { ...patience, ...options });
  }
  if (answers) {
    client.setRequestHandler("roots/list", answers.roots);
    client.setRequestHandler("sampling/createMessage", answers.sample);
    client.setRequestHandler("elicitation/create", answers.elicit);
  }

  let transport;
  if (config.transport === "stdio") {
    const { StdioClientTransport, getDefaultEnvironment } = await load("stdio.mjs");
    const env = { ...getDefaultEnvironment(), ...proxyPatience };
    transport = new StdioClientTransport({ command: config.command, args: config.args, env, stderr: config.stderr ?? "inherit" });
  } else {
    const Transport = config.transport === "sse" ? SSEClientTransport : StreamableHTTPClientTransport;
    transport = new Transport(new URL(config.url));
  }

  // What a session stores, a client without one sends with each request, or keeps a stream open for.
  const modern = () => client.getProtocolEra() === "modern";
  let level;
  const listening = new Map();
  const leveled = (p) => (modern() && level ? { ...p, _meta: { ...p?._meta, [LOG_LEVEL_META_KEY]: level } } : p);
  return {
    client,
    transport,
    greeting: () => client.getDiscoverResult(), // which comes before the transport has a listener
    // lacks returns whether a step exists in sessions only.
    lacks: (step) => modern() && (step.method === "ping" || step.notify !== undefined || step.await === "roots/list"),
    request: (method, params, options) => client.request({ method, ...(params && { params }) }, anything, options),
    calls: {
      ping: (_, o) => client.ping(o),
      "tools/call": (p, o) => client.callTool(leveled(p), o),
      "prompts/get": (p, o) => client.getPrompt(leveled(p), o),
      "resources/read": (p, o) => client.readResource(leveled(p), o),
      "resources/subscribe": async (p, o) =>
        modern() ? void listening.set(p.uri, await client.listen({ resourceSubscriptions: [p.uri] }, o)) : client.subscribeResource(p, o),
      "resources/unsubscribe": async (p, o) => (modern() ? listening.get(p.uri).close() : client.unsubscribeResource(p, o)),
      "completion/complete": (p, o) => client.complete(p, o),
      "logging/setLevel": async (p, o) => (modern() ? void (level = p.level) : client.setLoggingLevel(p.level, o)),
    },
  };
}
