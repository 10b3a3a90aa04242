// A server of both eras with the published TypeScript packages of the 2.x line: its server/discover names only 2026-07-28, and
// older revisions are negotiated by initialize. Its tool "drop" asks the user in a request of the server's own, which only clients in
// a session can be asked, and says on standard error whom it has asked.
//
//   node confirms.mjs '{"modules":"<node_modules>","transport":"stdio"}' [mark]
//   node confirms.mjs '{"modules":"<node_modules>","transport":"http"}'
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const config = JSON.parse(process.argv[2]);
const load = (file) => import(pathToFileURL(join(config.modules, "@modelcontextprotocol", file)));
const mcp = await load("server/dist/index.mjs");

function server() {
  const s = new mcp.McpServer({ name: "confirms", version: "1" });
  s.registerTool("drop", { description: "Drops the database" }, async (ctx) => {
    let said = "no user was asked";
    try {
      const question = { message: "Drop it?", requestedSchema: { type: "object", properties: {} } };
      const answer = await s.server.elicitInput(question, { relatedRequestId: ctx.mcpReq.id }); // on the stream of the call
      said = `the user says ${answer.action}`;
    } catch (e) {
      console.error("cannot ask:", e.message);
    }
    return { content: [{ type: "text", text: said }] };
  });
  return s;
}

if (config.transport === "stdio") {
  const stdio = await load("server/dist/stdio.mjs");
  stdio.serveStdio(server, { legacy: "serve" });
} else {
  const node = await load("node/dist/index.mjs");
  const modern = node.toNodeHandler(mcp.createMcpHandler(server, { legacy: "reject" }));
  const sessions = new Map();
  createServer(async (req, res) => {
    const body = req.method === "POST" ? JSON.parse(Buffer.concat(await req.toArray())) : undefined;
    if (req.method === "POST" && !(await mcp.isLegacyRequest(await node.toWebRequest(req, body), body))) return modern(req, res, body);
    let transport = sessions.get(req.headers["mcp-session-id"]);
    if (!transport) {
      transport = new node.NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void sessions.set(id, transport),
        onsessionclosed: (id) => void sessions.delete(id),
      });
      await server().connect(transport);
    }
    await transport.handleRequest(req, res, body);
  }).listen(0, "127.0.0.1");
}
