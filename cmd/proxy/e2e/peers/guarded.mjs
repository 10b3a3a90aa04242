// A server that requires OAuth tokens, with the published server parts of the TypeScript SDK. Arguments: the folder
// of installed packages, the port of the server on 127.0.0.1, the URL that clients know it by, and "own" if it is its own
// authorization server, "apart" if that is another server on another port, or "lenient" if that one also gives
// tokens for no URL, and the server has no copy of its metadata.
import http from "node:http";
import * as modules from "node:module";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [installed, port, known, mode] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(installed, file)));
const sdk = (file) => load(join("sdk-1.32.2/dist/esm", file));
const { default: express } = await load("express/index.js");
const { McpServer } = await sdk("server/mcp.js");
const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");
const { mcpAuthMetadataRouter, mcpAuthRouter, createOAuthMetadata, getOAuthProtectedResourceMetadataUrl } = await sdk("server/auth/router.js");
const { requireBearerAuth } = await sdk("server/auth/middleware/bearerAuth.js");
const { DemoInMemoryAuthProvider } = await sdk("examples/server/demoInMemoryOAuthProvider.js");

const resource = new URL(known);
const rateLimit = { authorizationOptions: { rateLimit: false }, tokenOptions: { rateLimit: false }, clientRegistrationOptions: { rateLimit: false } };
// It accepts only tokens for the URL that clients know it by. With "apart" it also refuses tokens that name no URL.
const provider = new DemoInMemoryAuthProvider((asked) => (asked ? asked.href === resource.href : mode !== "apart"));
const app = express();
const idle = { keepAliveTimeout: 0 }; // as in loopback.mjs
const listen = (server, at) => new Promise((done) => server.listen(at, "127.0.0.1", () => done(server.address().port)));

if (mode === "own") {
  app.use(mcpAuthRouter({ provider, issuerUrl: new URL(resource.origin), resourceServerUrl: resource, ...rateLimit }));
} else {
  const authorization = express();
  const issuer = new URL(`http://127.0.0.1:${await listen(http.createServer(idle, authorization), 0)}`);
  authorization.use(mcpAuthRouter({ provider, issuerUrl: issuer, ...rateLimit }));
  if (mode === "lenient") app.use("/.well-known/oauth-authorization-server", (req, res) => res.status(404).end());
  app.use(mcpAuthMetadataRouter({ oauthMetadata: createOAuthMetadata({ provider, issuerUrl: issuer }), resourceServerUrl: resource }));
}
app.use(express.json());
const sessions = new Map();
app.all("/mcp", requireBearerAuth({ verifier: provider, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource) }), async (req, res) => {
  let transport = sessions.get(req.headers["mcp-session-id"]);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
    const server = new McpServer({ name: "guarded", version: "1.0.0" });
    server.registerTool("whoami", { description: "who calls" }, (extra) => ({ content: [{ type: "text", text: extra.authInfo.clientId }] }));
    await server.connect(transport);
  }
  await transport.handleRequest(req, res, req.body);
});
await listen(http.createServer(idle, app), Number(port));
console.log("listening");
modules.flushCompileCache?.(); // as in loopback.mjs
