// A client written with a published SDK, of revisions with a handshake (sdk, the 1.x line) or of 2026-07-28 (client, 2.x).
// It starts the proxy, connects through it to the server of a scenario, calls each tool, reads each resource and gets
// each prompt.
//
//   node client.mjs NODE_MODULES sdk|client PROXY [FLAG...] URL

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

if (process.env.MCP_CONFORMANCE_SCENARIO?.startsWith('auth/')) process.exit(1); // which come with others, and are of another test

const [modules, line, proxy, ...rest] = process.argv.slice(2);
const url = rest.pop();
const load = (file) => import(pathToFileURL(join(modules, '@modelcontextprotocol', line, 'dist', file)));
const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: {} };
const info = { name: 'conformance-client', version: '1.0.0' };
const makers = {
  async sdk() {
    const { Client } = await load('esm/client/index.js');
    const { ElicitRequestSchema } = await load('esm/types.js');
    const { StdioClientTransport } = await load('esm/client/stdio.js');
    return { client: new Client(info, { capabilities }), StdioClientTransport, elicitation: ElicitRequestSchema };
  },
  async client() {
    const { Client } = await load('index.mjs');
    const { StdioClientTransport } = await load('stdio.mjs');
    const options = { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } };
    return { client: new Client(info, options), StdioClientTransport, elicitation: 'elicitation/create' };
  },
};

const { client, StdioClientTransport, elicitation } = await makers[line]();
client.setRequestHandler(elicitation, () => ({ action: 'accept', content: { confirmed: true } }));
await client.connect(new StdioClientTransport({ command: proxy, args: ['stdio', '--upstream', url, ...rest], stderr: 'inherit' }));

const values = { number: 5, integer: 5, boolean: true, string: 'text' };
const fitting = (schema) => Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, { type }]) => [name, values[type]]));

/** each does something with all that a list has, where the server has such things. What the server refuses is no matter. */
async function each(what, list, act) {
  if (!client.getServerCapabilities()?.[what]) return;
  for (const item of (await list())[what]) await act(item).catch((refusal) => console.error(String(refusal)));
}

const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
await each('tools', () => client.listTools(), async (tool) => {
  const calls = context.toolCalls?.filter(({ name }) => name === tool.name) ?? [{ name: tool.name, arguments: fitting(tool.inputSchema) }];
  for (const call of calls) await client.callTool(call);
});
await each('resources', () => client.listResources(), ({ uri }) => client.readResource({ uri }));
await each('prompts', () => client.listPrompts(), ({ name }) => client.getPrompt({ name }));
await client.close();
