// A server for the scenario, written with the published TypeScript packages of the 2.x line.
//
//   node server2.mjs '{"modules":"<node_modules>","transport":"stdio","eras":"modern"}' [mark]
//   node server2.mjs '{"modules":"<node_modules>","transport":"http"}'
//
// Both eras use the same handlers. With the eras "modern", the server refuses clients with a handshake, with "legacy" all
// others; with "both" it serves both on one endpoint, which is the packages' default. On HTTP the process is many servers that know
// nothing of each other: http://…/both/1/mcp, http://…/both/2/mcp, http://…/modern/1/mcp.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const config = JSON.parse(process.argv[2]);
const load = (file) => import(pathToFileURL(join(config.modules, "@modelcontextprotocol", file)));
const mcp = await load("server/dist/index.mjs");
const { inputRequired, inputResponse } = mcp;

const meta = { "example.com/n": 1 };
const icons = [{ src: "data:image/png;base64,iVBORw0KGgo=", mimeType: "image/png", sizes: ["8x8"] }];
const annotations = { audience: ["user"], priority: 0.5, lastModified: "2025-01-02T03:04:05Z" };
const resource = "demo://resource/dynamic/text/1";
const text = (said) => ({ content: [{ type: "text", text: said, _meta: meta }] });

// sorted returns the JSON of a value, with sorted members.
const sorted = (value) => JSON.stringify(value, (_, v) =>
  v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v);

// asking answers a call after the client has answered all questions. "said" puts the answers, by the names of the
// questions, into the result.
const asking = (ctx, questions, said) => {
  const answers = Object.fromEntries(Object.keys(questions).map((name) => [name, inputResponse(ctx.mcpReq.inputResponses, name)]));
  const open = Object.fromEntries(Object.entries(questions).filter(([name]) => answers[name].kind === "missing"));
  return Object.keys(open).length ? inputRequired({ inputRequests: open }) : said(answers);
};

const form = inputRequired.elicit({
  message: "Fill in",
  requestedSchema: {
    type: "object",
    properties: {
      agreed: { type: "boolean", default: false },
      colour: { type: "string", title: "Colour", oneOf: [{ const: "r", title: "Red" }, { const: "g", title: "Green" }], default: "g" },
      fruits: { type: "array", title: "Fruits", items: { anyOf: [{ const: "a", title: "Apple" }, { const: "p", title: "Pear" }] }, default: ["p"] },
      name: { type: "string", default: "nobody" },
    },
    required: ["fruits"],
  },
});
const ask = (message) => inputRequired.elicit({ message, requestedSchema: { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] } });
const sampling = (blocks) => inputRequired.createMessage({ maxTokens: 20, systemPrompt: "Be brief.", messages: [{ role: "user", content: blocks }] });
const sayHi = sampling({ type: "text", text: "say hi" });

// schemaOf returns a schema in the packages' form, which has to be compiled: once, since the packages make a server for each request.
const compiled = new Map(); // by the JSON of the schema
const schemaOf = (schema) => {
  const key = JSON.stringify(schema);
  if (!compiled.has(key)) compiled.set(key, mcp.fromJsonSchema(schema));
  return compiled.get(key);
};

// alone is what a server knows beside its clients.
const alone = () => ({
  cancellations: 0,
  instances: new Set(), // that have a session
  tellSubscribers: async () => {}, // of clients without one
});

function server(own) {
  const s = new mcp.McpServer(
    { name: "ts-2", title: "TypeScript 2", version: "2.4.0", websiteUrl: "https://example.com/", icons },
    { instructions: "Call anything.", capabilities: { logging: {}, completions: {}, resources: { subscribe: true } } },
  );
  s.server.setRequestHandler("completion/complete", ({ params }) => ({ completion: { values: [`${params.argument.value}ngineering`], total: 1 } }));
  s.server.setRequestHandler("resources/subscribe", () => ({}));
  s.server.setRequestHandler("resources/unsubscribe", () => ({}));
  const tool = (name, properties, call, more) =>
    s.registerTool(name, {
      title: `The ${name}`, description: `Does ${name}`, icons, _meta: meta,
      annotations: { readOnlyHint: true, idempotentHint: true },
      inputSchema: schemaOf({ type: "object", properties }),
      ...more,
    }, call);

  tool("echo", { message: { type: "string" } }, ({ message }) => text(`Echo: ${message}`));
  tool("get-sum", { a: { type: "number", default: 1 }, b: { type: "number" } }, ({ a, b }) => text(`The sum of ${a} and ${b} is ${a + b}.`));
  tool("trigger-long-running-operation", { duration: { type: "number" }, steps: { type: "number" } }, async ({ duration, steps }, { mcpReq }) => {
    for (let i = 1; i <= steps; i++) {
      await new Promise((resolve) => setTimeout(resolve, (1000 * duration) / steps));
      if (mcpReq.signal.aborted) {
        own.cancellations++;
        break;
      }
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken !== undefined) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: i, total: steps, message: `step ${i}` } });
      }
    }
    return text("done");
  });
  tool("get-cancellations", {}, async () => {
    // The notification and this call may overtake each other.
    for (let i = 0; i < 60_000 && own.cancellations === 0; i++) await new Promise((resolve) => setTimeout(resolve, 10));
    return text(String(own.cancellations));
  });
  tool("get-tiny-image", {}, () => ({ content: [{ type: "image", data: "aW1hZ2U=", mimeType: "image/png", _meta: meta, annotations }] }));
  tool("get-audio", {}, () => ({ content: [{ type: "audio", data: "c29tZSBhdWRpbw==", mimeType: "audio/wav", _meta: meta }] }));
  tool("get-annotated-message", {}, () => ({ content: [{ type: "text", text: "annotated", annotations }] }));
  tool("get-resource-reference", {}, () => ({ content: [{ type: "resource", _meta: meta, resource: { uri: resource, mimeType: "text/plain", text: "one", _meta: meta } }] }));
  tool("get-resource-links", {}, () => ({ content: [
    { type: "resource_link", uri: resource, name: "one", title: "The first", description: "Text", mimeType: "text/plain", size: 3, icons, _meta: meta, annotations },
    { type: "resource_link", uri: "demo://bare", name: "bare" },
  ] }));
  tool("get-structured-content", {}, () => ({ ...text("Cloudy."), structuredContent: { conditions: "Cloudy", temperature: 33 } }), {
    outputSchema: schemaOf({ type: "object", properties: { conditions: { type: "string" }, temperature: { type: "number" } } }),
  });

  tool("trigger-sampling-request", {}, (_, ctx) => asking(ctx, { s: sayHi }, ({ s }) => text(sorted(s.result))));
  tool("trigger-sampling-of-blocks", {}, (_, ctx) =>
    asking(ctx, { s: sampling([{ type: "text", text: "first" }, { type: "text", text: "second" }]) }, ({ s }) => text(sorted(s.result))));
  tool("trigger-elicitation-request", {}, (_, ctx) => asking(ctx, { e: form }, ({ e }) => text(`${e.action} ${sorted(e.content)}`)));
  tool("trigger-url-elicitation", {}, (_, ctx) =>
    asking(ctx, { u: inputRequired.elicitUrl({ message: "open", url: "https://example.com/e" }) }, ({ u }) => text(u.action)));
  tool("list-roots", {}, (_, ctx) => asking(ctx, { r: inputRequired.listRoots() }, ({ r }) => text(sorted(r.roots))));
  tool("ask-everything", {}, (_, ctx) =>
    asking(ctx, { r: inputRequired.listRoots(), e: ask("And you?"), s: sayHi }, ({ r, e, s }) => text(sorted([r.roots, e.content, s.result]))));
  tool("ask-twice", {}, (_, ctx) => { // each round knows of the one before by what the client brings back
    const e = inputResponse(ctx.mcpReq.inputResponses, "e");
    const before = ctx.mcpReq.requestState();
    if (before === undefined) return inputRequired({ inputRequests: { e: ask("First?") }, requestState: "caf\u00e9 \"1\"" });
    if (before === "caf\u00e9 \"1\"") return inputRequired({ inputRequests: { e: ask("Second?") }, requestState: `2 ${sorted(e.content)}` });
    return text(`${before} ${sorted(e.content)}`);
  });
  tool("ask", { who: { type: "string" } }, ({ who }, ctx) => asking(ctx, { e: ask(`Are you ${who}?`) }, ({ e }) => text(`${who}: ${e.content?.answer}`)));

  tool("toggle-subscriber-updates", {}, async () => {
    await own.tellSubscribers(resource);
    for (const i of own.instances) await i.server.sendResourceUpdated({ uri: resource });
    return text("updated");
  });
  tool("toggle-simulated-logging", {}, async (_, { mcpReq }) => {
    await mcpReq.log("warning", "hello", "e2e");
    return text("logged");
  });

  const read = (uri) => ({ contents: [{ uri: String(uri), mimeType: "text/plain", ...(String(uri).includes("/blob/") ? { blob: "dHdv" } : { text: "one" }), _meta: meta }] });
  const about = { mimeType: "text/plain", size: 3, icons, annotations, _meta: meta };
  s.registerResource("one", resource, { title: "The first", ...about }, read);
  s.registerResource("asking", "demo://asking/1", {}, (uri, ctx) =>
    asking(ctx, { e: ask("May I read?") }, ({ e }) => ({ contents: [{ uri: String(uri), text: e.content.answer }] })));
  const template = (kind) => new mcp.ResourceTemplate(`demo://resource/dynamic/${kind}/{resourceId}`, { list: undefined });
  s.registerResource("texts", template("text"), { title: "All texts", icons, annotations, _meta: meta }, read);
  s.registerResource("blobs", template("blob"), {}, read);

  const prompt = (name, content, properties) =>
    s.registerPrompt(name, {
      title: `The ${name}`, icons, _meta: meta,
      ...(properties && { argsSchema: schemaOf({ type: "object", properties, required: Object.keys(properties) }) }),
    }, () => ({ messages: [{ role: "user", content }] }));
  prompt("simple-prompt", { type: "text", text: "simple", _meta: meta, annotations });
  prompt("args-prompt", { type: "audio", data: "aHVt", mimeType: "audio/ogg" }, { city: { type: "string", title: "City" } });
  prompt("resource-prompt", { type: "resource_link", uri: resource, name: "one", icons });
  s.registerPrompt("asking-prompt", {}, (ctx) =>
    asking(ctx, { e: ask("About what?") }, ({ e }) => ({ messages: [{ role: "user", content: { type: "text", text: e.content.answer } }] })));
  return s;
}

const fail = (e) => console.error("server2:", e);
if (config.transport === "stdio") {
  const stdio = await load("server/dist/stdio.mjs");
  const own = alone();
  const one = () => {
    const s = server(own);
    own.instances.add(s);
    return s;
  };
  if (config.eras === "legacy") await one().connect(new stdio.StdioServerTransport());
  else stdio.serveStdio(one, { legacy: config.eras === "both" ? "serve" : "reject", onerror: fail });
} else {
  const { createServer } = await import("node:http"); // which a server on stdio need not load
  const node = await load("node/dist/index.mjs");
  const open = (eras) => {
    const own = alone();
    const handler = mcp.createMcpHandler(() => server(own), { legacy: "reject", onerror: fail });
    const modern = node.toNodeHandler(handler);
    own.tellSubscribers = async (uri) => handler.notify.resourceUpdated(uri);
    const sessions = new Map();
    const legacy = async (req, res, body) => {
      let transport = sessions.get(req.headers["mcp-session-id"]);
      if (!transport) {
        const one = server(own);
        transport = new node.NodeStreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (id) => void (sessions.set(id, transport), own.instances.add(one)),
          onsessionclosed: (id) => void (sessions.delete(id), own.instances.delete(one)),
        });
        await one.connect(transport);
      }
      await transport.handleRequest(req, res, body);
    };
    const isLegacy = async (req, body) => {
      if (eras !== "both") return eras === "legacy";
      return req.method !== "POST" || mcp.isLegacyRequest(await node.toWebRequest(req, body), body);
    };
    return async (req, res, body) => ((await isLegacy(req, body)) ? legacy : modern)(req, res, body);
  };
  const servers = new Map(); // by path
  createServer(async (req, res) => {
    try {
      const [path, eras] = /\/(both|legacy|modern)\/\d+\/mcp\b/.exec(req.url) ?? [];
      if (!path) return res.writeHead(404).end();
      if (!servers.has(path)) servers.set(path, open(eras));
      let body;
      if (req.method === "POST") {
        const pieces = await req.toArray();
        body = JSON.parse(Buffer.concat(pieces));
      }
      await servers.get(path)(req, res, body);
    } catch (e) {
      fail(e);
      if (!res.headersSent) res.writeHead(500);
      res.end();
    }
  }).listen(0, "127.0.0.1");
}
