// A server of 2025-11-25, written with the published 1.x SDK. During a call, it asks by requests to the client.
//
//   node legacy.mjs NODE_MODULES http|stdio

import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { capabilities, handler, plain } from './fixture.mjs';

const [modules, over] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(modules, '@modelcontextprotocol', 'sdk', 'dist', 'esm', file)));
const { Server } = await load('server/index.js');
const { StdioServerTransport } = await load('server/stdio.js');
const schemas = await load('types.js');

const requests = {
  'tools/list': schemas.ListToolsRequestSchema,
  'resources/list': schemas.ListResourcesRequestSchema,
  'resources/templates/list': schemas.ListResourceTemplatesRequestSchema,
  'resources/read': schemas.ReadResourceRequestSchema,
  'prompts/list': schemas.ListPromptsRequestSchema,
  'completion/complete': schemas.CompleteRequestSchema,
};
const answers = {
  'elicitation/create': schemas.ElicitResultSchema,
  'sampling/createMessage': schemas.CreateMessageResultSchema,
  'roots/list': schemas.ListRootsResultSchema,
};

const sessions = new Map();

/** run has a handler answer, and asks what it asks on the stream of its call, all questions of one round at once. */
async function run(server, { method, params }, extra) {
  const notify = (method, params) => extra.sendNotification({ method, params });
  const answer = handler(method, params.name)({
    args: params.arguments ?? {},
    can: server.getClientCapabilities() ?? {},
    async progress(progress, total, message) {
      const progressToken = extra._meta?.progressToken;
      if (progressToken !== undefined) await notify('notifications/progress', { progressToken, progress, total, message });
    },
    log: (level, data) => notify('notifications/message', { level, data }),
    tell: (kind) => Promise.all([...sessions.values()].map(({ server }) => server[kind === 'tools' ? 'sendToolListChanged' : 'sendPromptListChanged']())),
  });
  if (typeof answer.next !== 'function') return answer;
  for (let step = answer.next(); ; ) {
    if (step.done) return step.value;
    const asked = Object.entries(step.value).map(async ([key, question]) =>
      [key, await server.request(question, answers[question.method], { relatedRequestId: extra.requestId })]);
    step = answer.next(Object.fromEntries(await Promise.all(asked)));
  }
}

function aServer() {
  const server = new Server({ name: 'conformance-2025-11-25', version: '1.0.0' }, { capabilities });
  for (const [method, schema] of Object.entries(requests)) {
    server.setRequestHandler(schema, ({ params }) => plain[method](params ?? {}));
  }
  for (const schema of [schemas.CallToolRequestSchema, schemas.GetPromptRequestSchema]) {
    server.setRequestHandler(schema, (request, extra) => run(server, request, extra));
  }
  for (const schema of [schemas.SubscribeRequestSchema, schemas.UnsubscribeRequestSchema]) {
    server.setRequestHandler(schema, () => ({}));
  }
  return server;
}

if (over === 'stdio') {
  const server = aServer();
  sessions.set('stdio', { server });
  await server.connect(new StdioServerTransport());
} else {
  const { createServer } = await import('node:http'); // which a server on stdio need not load
  const { StreamableHTTPServerTransport } = await load('server/streamableHttp.js');
  const http = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const known = sessions.get(request.headers['mcp-session-id']);
    if (known) return known.transport.handleRequest(request, response);
    const server = aServer();
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, { server, transport }),
    });
    transport.onclose = () => sessions.delete(transport.sessionId);
    await server.connect(transport);
    return transport.handleRequest(request, response);
  });
  http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}
