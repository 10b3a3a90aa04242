// Calls a tool of the server that the arguments start, and prints the result as JSON.
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [modules, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(modules, "@modelcontextprotocol", "client", "dist", file)));
const { Client } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");

const patience = { timeout: 600_000 }; // the SDK's own limit is one minute
const client = new Client({ name: "dragoman-e2e", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit", env: process.env }), patience);
const { tools } = await client.listTools(undefined, patience);
const said = { schemas: tools.map((t) => t.inputSchema.$schema ?? ""), error: "" };
try {
  said.result = await client.callTool({ name: "list_allowed_directories", arguments: {} }, patience);
} catch (e) {
  said.error = e.message;
}
await client.close();
console.log(JSON.stringify(said));
