// A server that takes requests for the host mcp.example only, with the published TypeScript packages: the check of the 1.x line's
// application ("app") or transport ("transport"), or that of the 2.x line ("2").
//
//   node hosts.mjs <node_modules> app
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, check] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(modules, file)));
const hosts = ["mcp.example"];
const reached = (_, res) => void res.writeHead(500).end("the check has let it pass");

if (check === "app") {
  const { createMcpExpressApp } = await load("sdk-1.32.2/dist/esm/server/express.js");
  createMcpExpressApp({ allowedHosts: hosts }).use(reached).listen(0, "127.0.0.1");
} else if (check === "transport") {
  const { StreamableHTTPServerTransport } = await load("sdk-1.32.2/dist/esm/server/streamableHttp.js");
  const options = { sessionIdGenerator: undefined, enableDnsRebindingProtection: true, allowedHosts: hosts }; // one a request
  createServer((req, res) => void new StreamableHTTPServerTransport(options).handleRequest(req, res)).listen(0, "127.0.0.1");
} else {
  const { hostHeaderValidation } = await load("@modelcontextprotocol/node/dist/index.mjs");
  const passes = hostHeaderValidation(hosts);
  createServer((req, res) => void (passes(req, res) && reached(req, res))).listen(0, "127.0.0.1");
}
