// A server of 2026-07-28 and of no revision with a handshake, written with the published 2.x packages. It asks by
// input_required, and keeps no state between two requests: the answers so far are in requestState.
//
//   node modern.mjs NODE_MODULES http|stdio

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { capabilities, handler, plain } from './fixture.mjs';

const [modules, over] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(modules, '@modelcontextprotocol', file)));
const { Server, createMcpHandler, createRequestStateCodec, inputRequired, CLIENT_CAPABILITIES_META_KEY } = await load('server/dist/index.mjs');

const codec = createRequestStateCodec({ key: randomBytes(32) });
let tell; // all listeners

/** run has a handler answer: again up to where it was, and from there by what the client has answered now. */
async function run({ method, params }, { mcpReq }) {
  const answer = handler(method, params.name)({
    args: params.arguments ?? {},
    can: mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {},
    async progress(progress, total, message) {
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken !== undefined) await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
    },
    log: (level, data) => mcpReq.log(level, data),
    tell: (kind) => tell(kind),
  });
  if (typeof answer.next !== 'function') return answer;
  const rounds = mcpReq.requestState() ?? [];
  let step = answer.next();
  for (const round of rounds) step = answer.next(round);
  const now = mcpReq.inputResponses ?? {};
  if (!step.done && Object.keys(step.value).every((key) => Object.hasOwn(now, key))) {
    const round = Object.fromEntries(Object.keys(step.value).map((key) => [key, now[key]]));
    rounds.push(round);
    step = answer.next(round);
  }
  return step.done ? step.value : inputRequired({ inputRequests: step.value, requestState: await codec.mint(rounds) });
}

function aServer() {
  const server = new Server({ name: 'conformance-2026-07-28', version: '1.0.0' }, { capabilities, requestState: { verify: codec.verify } });
  for (const [method, answer] of Object.entries(plain)) {
    server.setRequestHandler(method, ({ params }) => answer(params ?? {}));
  }
  for (const method of ['tools/call', 'prompts/get']) server.setRequestHandler(method, run);
  return server;
}

if (over === 'stdio') {
  const { serveStdio } = await load('server/dist/stdio.mjs');
  let last;
  serveStdio(() => (last = aServer()), { legacy: 'reject' });
  tell = (kind) => last[kind === 'tools' ? 'sendToolListChanged' : 'sendPromptListChanged']();
} else {
  const { createServer } = await import('node:http'); // which a server on stdio need not load
  const { toNodeHandler } = await load('node/dist/index.mjs');
  const mcp = createMcpHandler(aServer, { legacy: 'reject' });
  tell = (kind) => mcp.notify[kind === 'tools' ? 'toolsChanged' : 'promptsChanged']();
  const http = createServer({ keepAliveTimeout: 0 }, toNodeHandler(mcp));
  http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}
