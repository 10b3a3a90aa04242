// A client of revisions with a handshake, written with the published 1.x SDK. It reaches the server of a scenario through
// the proxy, which it starts, and there does all that there is to do: calls each tool, reads each resource, gets each prompt.
//
//   node client.mjs NODE_MODULES PROXY [FLAG...] URL

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, proxy, ...rest] = process.argv.slice(2);
const url = rest.pop();
const load = (file) => import(pathToFileURL(join(modules, '@modelcontextprotocol', 'sdk', 'dist', 'esm', file)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');
const schemas = await load('types.js');

const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: {} };
const client = new Client({ name: 'conformance-client', version: '1.0.0' }, { capabilities });
client.setRequestHandler(schemas.ElicitRequestSchema, () => ({ action: 'accept', content: { confirmed: true } }));

const transport = new StdioClientTransport({ command: proxy, args: ['stdio', '--upstream', url, ...rest], stderr: 'inherit' });
await client.connect(transport);

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
