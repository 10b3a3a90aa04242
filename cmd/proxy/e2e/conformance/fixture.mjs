// What the servers beside this file offer: the tools, prompts and resources that the conformance suite's scenarios name.
//
// A handler that asks its client something is a generator. It yields questions, { key: { method, params } }, and goes on
// with the answers, { key: result }. Each server has its own way to ask the client.

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const resourceNotFound = -32002, invalidParams = -32602, missingCapability = -32021;

/** failure is an error with a JSON-RPC code. */
const failure = (code, message, data) => Object.assign(new Error(message), { code, data });

const text = (said) => ({ content: [line(said)] });
const line = (said) => ({ type: 'text', text: said });
const image = { type: 'image', data: png, mimeType: 'image/png' };
const embedded = (uri) => ({ type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'This is an embedded resource' } });
const pause = () => new Promise((done) => setTimeout(done, 20));

const user = (message, properties, required = []) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties, required } },
});
const userName = user('What is your name?', { name: { type: 'string' } }, ['name']);
const confirm = user('Please confirm', { ok: { type: 'boolean' } }, ['ok']);
const model = (question, maxTokens) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: line(question) }], maxTokens },
});
const roots = { method: 'roots/list', params: {} };

const titled = (prefix, count) => ['First', 'Second', 'Third'].slice(0, count).map((nth, i) => ({ const: `${prefix}${i + 1}`, title: `${nth} Option` }));
const options = ['option1', 'option2', 'option3'];

/**
 * The tools, by name. A call has the arguments (args), what the client can do (can), progress(done, total, message) and
 * log(level, data) towards it, and tell(kind) towards all: "tools" or "prompts" have changed.
 */
export const tools = {
  test_simple_text: () => text('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [image] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({ content: [embedded('test://embedded-resource')] }),
  test_multiple_content_types: () => ({ content: [line('Several kinds of content'), image, embedded('test://mixed-content-resource')] }),
  test_error_handling: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),
  json_schema_2020_12_tool: ({ args }) => text(`Called with ${JSON.stringify(args)}`),
  test_x_mcp_header: ({ args }) => text(`region=${args.region}`),

  async test_tool_with_progress(call) {
    for (const done of [0, 50, 100]) {
      await call.progress(done, 100, `Completed step ${done} of 100`);
      await pause();
    }
    return text('Done');
  },
  async test_tool_with_logging(call) {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await call.log('info', data);
      await pause();
    }
    return text('Logged');
  },
  async test_logging_tool(call) {
    await call.log('info', 'test_logging_tool executed');
    return text('Logged');
  },
  async test_trigger_tool_change(call) {
    await call.tell('tools');
    return text('Told');
  },
  async test_trigger_prompt_change(call) {
    await call.tell('prompts');
    return text('Told');
  },
  test_missing_capability({ can }) {
    if (can.sampling) return text('The client declared sampling');
    throw failure(missingCapability, 'The client did not declare sampling', { requiredCapabilities: { sampling: {} } });
  },

  *test_sampling({ args }) {
    const { answer } = yield { answer: model(args.prompt, 100) };
    return text(`LLM response: ${answer.content.text}`);
  },
  *test_elicitation({ args }) {
    const { answer } = yield { answer: user(args.message, { username: { type: 'string' }, email: { type: 'string' } }, ['username', 'email']) };
    return text(`User response: ${JSON.stringify(answer)}`);
  },
  *test_elicitation_sep1034_defaults() {
    const { answer } = yield {
      answer: user('Defaults of each kind', {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
      }),
    };
    return text(`Elicitation completed: ${JSON.stringify(answer)}`);
  },
  *test_elicitation_sep1330_enums() {
    const { answer } = yield {
      answer: user('Choices of each kind', {
        untitledSingle: { type: 'string', enum: options },
        titledSingle: { type: 'string', oneOf: titled('value', 3) },
        legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
        untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
        titledMulti: { type: 'array', items: { anyOf: titled('value', 3) } },
      }),
    };
    return text(`Elicitation completed: ${JSON.stringify(answer)}`);
  },

  *test_streaming_elicitation() {
    const { user_name } = yield { user_name: userName };
    return text(`The user said ${user_name.action}`);
  },
  *test_input_required_result_elicitation() {
    const { user_name } = yield { user_name: userName };
    return text(`Hello, ${user_name.content?.name}!`);
  },
  *test_input_required_result_sampling() {
    const { capital_question } = yield { capital_question: model('What is the capital of France?', 100) };
    return text(`The model said: ${capital_question.content.text}`);
  },
  *test_input_required_result_list_roots() {
    const { client_roots } = yield { client_roots: roots };
    return text(`The client's roots: ${client_roots.roots.map((root) => root.uri).join(', ')}`);
  },
  *test_input_required_result_request_state() {
    const answers = yield { confirm };
    return text(`state-ok: ${answers.confirm.action}`);
  },
  *test_input_required_result_multiple_inputs() {
    const { user_name, greeting, client_roots } = yield { user_name: userName, greeting: model('Generate a greeting', 50), client_roots: roots };
    return text(`${greeting.content.text} ${user_name.content?.name}, ${client_roots.roots.length} roots`);
  },
  *test_input_required_result_multi_round() {
    const { step1 } = yield { step1: user('Step 1: What is your name?', { name: { type: 'string' } }, ['name']) };
    const { step2 } = yield { step2: user('Step 2: What is your favorite color?', { color: { type: 'string' } }, ['color']) };
    return text(`${step1.content?.name} likes ${step2.content?.color}`);
  },
  *test_input_required_result_tampered_state() {
    const answers = yield { confirm };
    return text(`The user said ${answers.confirm.action}`);
  },
  *test_input_required_result_capabilities({ can }) {
    yield {
      ...(can.elicitation && { user_name: userName }),
      ...(can.sampling && { greeting: model('Generate a short greeting', 50) }),
      ...(can.roots && { client_roots: roots }),
    };
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
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: png },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched' },
};
const template = /^test:\/\/template\/([^/]+)\/data$/;

function read(uri) {
  const id = template.exec(uri)?.[1];
  if (id !== undefined) {
    return { mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  }
  if (!Object.hasOwn(resources, uri)) throw failure(resourceNotFound, 'Resource not found', { uri });
  return resources[uri];
}

const say = (...contents) => ({ messages: contents.map((content) => ({ role: 'user', content })) });

/** The prompts, by name. */
export const prompts = {
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
    *get() {
      const { user_context } = yield { user_context: user('What context should the prompt use?', { context: { type: 'string' } }, ['context']) };
      return say(line(`Context: ${user_context.content?.context}`));
    },
  },
};

/** What both servers declare. */
export const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true },
  completions: {},
  logging: {},
};

/** Answers to what needs neither the client nor the revision, by method. */
export const plain = {
  'tools/list': () => ({
    tools: Object.keys(tools).map((name) => ({
      name,
      description: `For the scenarios that call ${name}`,
      inputSchema: inputSchemas[name] ?? { type: 'object' },
    })),
  }),
  'resources/list': () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice('test://'.length), mimeType })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
  }),
  'resources/read': ({ uri }) => ({ contents: [{ uri, ...read(uri) }] }),
  'prompts/list': () => ({
    prompts: Object.entries(prompts).map(([name, prompt]) => ({
      name,
      description: `For the scenarios that get ${name}`,
      arguments: prompt.arguments?.map((argument) => ({ name: argument, required: true })),
    })),
  }),
  'completion/complete': () => ({ completion: { values: [], total: 0, hasMore: false } }),
};

/** handler is what answers a call of a tool, or a get of a prompt. */
export function handler(method, name) {
  const all = method === 'tools/call' ? tools : prompts;
  if (!Object.hasOwn(all, name)) throw failure(invalidParams, `No such name: ${name}`);
  return all[name].get ?? all[name];
}
