// A server of 2025-11-25, written with the published 1.x SDK, that offers what the conformance suite's scenarios for
// 2026-07-28 name. Where those want an answer with input_required, it asks as servers of its revision do: by requests
// of its own, in the middle of the call.
//
//   node legacy.mjs FOLDER-OF-THE-SDK http|stdio

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [sdk, over] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, 'dist', 'esm', file)));
const { Server } = await load('server/index.js');
const { StdioServerTransport } = await load('server/stdio.js');
const { StreamableHTTPServerTransport } = await load('server/streamableHttp.js');
const schemas = await load('types.js');
const { McpError } = schemas;

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const invalidParams = -32602, resourceNotFound = -32002, missingCapability = -32021;

const text = (...lines) => ({ content: lines.map((line) => ({ type: 'text', text: line })) });
const image = { type: 'image', data: png, mimeType: 'image/png' };
const embedded = (uri) => ({ type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'This is an embedded resource' } });
const form = (property, type) => ({ type: 'object', properties: { [property]: { type } }, required: [property] });
const pause = () => new Promise((done) => setTimeout(done, 20));

/** What a call asks its client, on the stream of that call. */
function asking({ server, extra }) {
  const on = { relatedRequestId: extra.requestId };
  return {
    user: (message, requestedSchema) => server.elicitInput({ mode: 'form', message, requestedSchema }, on),
    model: (question, maxTokens) =>
      server.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens }, on),
    roots: () => server.listRoots({}, on),
  };
}

const tools = {
  test_simple_text: () => text('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [image] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({ content: [embedded('test://embedded-resource')] }),
  test_multiple_content_types: () => ({
    content: [{ type: 'text', text: 'Multiple content types test:' }, image, embedded('test://mixed-content-resource')],
  }),
  test_error_handling: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),

  async test_tool_with_progress({ extra }) {
    const { progressToken } = extra._meta ?? {};
    for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
      const message = `Completed step ${progress} of 100`;
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: 100, message } });
      await pause();
    }
    return text(String(progressToken));
  },
  async test_logging_tool({ extra }) {
    await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data: 'test_logging_tool executed' } });
    return text('A log message was sent');
  },
  async test_streaming_elicitation(call) {
    const { action } = await asking(call).user('What is your name?', form('name', 'string'));
    return text(`The user said ${action}`);
  },
  test_missing_capability({ server }) {
    if (server.getClientCapabilities()?.sampling) return text('The client declared sampling');
    throw new McpError(missingCapability, 'The client did not declare sampling', { requiredCapabilities: { sampling: {} } });
  },
  test_trigger_tool_change: () => toEverySession((server) => server.sendToolListChanged()),
  test_trigger_prompt_change: () => toEverySession((server) => server.sendPromptListChanged()),
  json_schema_2020_12_tool: ({ args }) => text(`Called with ${JSON.stringify(args)}`),
  test_x_mcp_header: ({ args }) => text(`region=${args.region}`),

  async test_input_required_result_elicitation(call) {
    const { content } = await asking(call).user('What is your name?', form('name', 'string'));
    return text(`Hello, ${content?.name}!`);
  },
  async test_input_required_result_sampling(call) {
    const { content } = await asking(call).model('What is the capital of France?', 100);
    return text(`The model said: ${content.text}`);
  },
  async test_input_required_result_list_roots(call) {
    const { roots } = await asking(call).roots();
    return text(`The client's roots: ${roots.map((root) => root.uri).join(', ')}`);
  },
  async test_input_required_result_request_state(call) {
    const { action } = await asking(call).user('Please confirm', form('ok', 'boolean'));
    return text(`state-ok: ${action}`);
  },
  async test_input_required_result_multiple_inputs(call) {
    const ask = asking(call);
    const [name, greeting, { roots }] = await Promise.all([
      ask.user('What is your name?', form('name', 'string')),
      ask.model('Generate a greeting', 50),
      ask.roots(),
    ]);
    return text(`${greeting.content.text} ${name.content?.name}, ${roots.length} roots`);
  },
  async test_input_required_result_multi_round(call) {
    const ask = asking(call);
    const name = await ask.user('Step 1: What is your name?', form('name', 'string'));
    const color = await ask.user('Step 2: What is your favorite color?', form('color', 'string'));
    return text(`${name.content?.name} likes ${color.content?.color}`);
  },
  async test_input_required_result_tampered_state(call) {
    const { action } = await asking(call).user('Please confirm', form('ok', 'boolean'));
    return text(`The user said ${action}`);
  },
  async test_input_required_result_capabilities(call) {
    const can = call.server.getClientCapabilities() ?? {};
    const ask = asking(call);
    await Promise.all([
      can.elicitation && ask.user('What is your name?', form('name', 'string')),
      can.sampling && ask.model('Generate a short greeting', 50),
      can.roots && ask.roots(),
    ]);
    return text('Asked for what the client can do');
  },
};

const inputSchemas = {
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
  test_x_mcp_header: {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } },
  },
};

const resources = {
  'test://static-text': () => ({ mimeType: 'text/plain', text: 'This is the content of the static text resource.' }),
  'test://static-binary': () => ({ mimeType: 'image/png', blob: png }),
};
const template = /^test:\/\/template\/([^/]+)\/data$/;

function read(uri) {
  const id = template.exec(uri)?.[1];
  if (id !== undefined) {
    return { mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  }
  if (!Object.hasOwn(resources, uri)) throw new McpError(resourceNotFound, 'Resource not found', { uri });
  return resources[uri]();
}

const say = (...contents) => ({ messages: contents.map((content) => ({ role: 'user', content })) });
const line = (text) => ({ type: 'text', text });
const prompts = {
  test_simple_prompt: { get: () => say(line('This is a simple prompt for testing.')) },
  test_prompt_with_arguments: {
    arguments: ['arg1', 'arg2'],
    get: ({ args }) => say(line(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`)),
  },
  test_prompt_with_embedded_resource: {
    arguments: ['resourceUri'],
    get: ({ args }) => say(embedded(args.resourceUri), line('Please process the embedded resource above.')),
  },
  test_prompt_with_image: { get: () => say(image, line('Please analyze the image above.')) },
  test_input_required_result_prompt: {
    async get(call) {
      const { content } = await asking(call).user('What context should the prompt use?', form('context', 'string'));
      return say(line(`Context: ${content?.context}`));
    },
  },
};

const sessions = new Map();

async function toEverySession(tell) {
  await Promise.all([...sessions.values()].map(({ server }) => tell(server)));
  return text('Every session was told');
}

function aServer() {
  const server = new Server(
    { name: 'conformance-2025-11-25', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true },
        completions: {},
        logging: {},
      },
    },
  );
  const on = (schema, answer) => server.setRequestHandler(schemas[schema], ({ params }, extra) => answer(params ?? {}, extra));
  const choose = (all, name) => {
    if (!Object.hasOwn(all, name)) throw new McpError(invalidParams, `No such name: ${name}`);
    return all[name];
  };
  on('ListToolsRequestSchema', () => ({
    tools: Object.keys(tools).map((name) => ({
      name,
      description: `For the scenarios that call ${name}`,
      inputSchema: inputSchemas[name] ?? { type: 'object', properties: {} },
    })),
  }));
  on('CallToolRequestSchema', (params, extra) => choose(tools, params.name)({ server, extra, args: params.arguments ?? {} }));
  on('ListResourcesRequestSchema', () => ({
    resources: Object.keys(resources).map((uri) => ({ uri, name: uri.slice('test://'.length), mimeType: resources[uri]().mimeType })),
  }));
  on('ListResourceTemplatesRequestSchema', () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
  }));
  on('ReadResourceRequestSchema', ({ uri }) => ({ contents: [{ uri, ...read(uri) }] }));
  on('SubscribeRequestSchema', () => ({}));
  on('UnsubscribeRequestSchema', () => ({}));
  on('ListPromptsRequestSchema', () => ({
    prompts: Object.entries(prompts).map(([name, prompt]) => ({
      name,
      description: `For the scenarios that get ${name}`,
      arguments: prompt.arguments?.map((argument) => ({ name: argument, required: true })),
    })),
  }));
  on('GetPromptRequestSchema', (params, extra) => choose(prompts, params.name).get({ server, extra, args: params.arguments ?? {} }));
  on('CompleteRequestSchema', () => ({ completion: { values: [], total: 0, hasMore: false } }));
  return server;
}

if (over === 'stdio') {
  const server = aServer();
  sessions.set('stdio', { server });
  await server.connect(new StdioServerTransport());
} else {
  const http = createServer(async (request, response) => {
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
