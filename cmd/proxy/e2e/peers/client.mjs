// Runs the scenario with one published client and prints its transcript, one entry at a time. Its configuration is one of
//
//   {"sdk":"<folder of the SDK>","revision":"2025-06-18","transport":"http","url":"http://…"}
//   {"sdk":"<folder of the SDK>","revision":"2024-11-05","transport":"sse","url":"http://…"}
//   {"sdk":"<folder of the SDK>","revision":"2024-11-05","transport":"stdio","command":"node","args":["…"],"stderr":"<file>"}
//   {"sdk":"<folder of the client>","mode":{"pin":"2026-07-28"},"transport":"http","url":"http://…"}
//
// The last is of the 2.x line (sdk2.mjs), the others of the 1.x line (sdk1.mjs).
//
// The transcript has the messages as they came over the wire, not as the client decoded them. If the client could not
// read an answer, "refused" says why.
import { closeSync, openSync, readFileSync } from "node:fs";
import { answers } from "./answers.mjs";
import { listsOf, patience } from "./sdk1.mjs";

const scenario = readFileSync(new URL("scenario.json", import.meta.url));

const message = (e) => String(e?.message ?? e);

// Tap sees every message of a transport, both ways, before the client does.
class Tap {
  #seen = new WeakSet(); // messages: listeners may hand them on to the one before
  #waiting = []; // [what is waited for, whom to tell]
  sent = []; // requests of the client
  answers = new Map(); // id of a request -> its { result | error }
  asked = []; // requests of the server
  heard = new Map(); // notifications: method -> the params of each

  constructor(transport) {
    const { send } = transport;
    let deliver = transport.onmessage;
    Object.defineProperty(transport, "onmessage", { // which more than one may set, one after another
      get: () => deliver,
      set: (listener) => {
        deliver = listener && ((m, ...more) => {
          this.#in(m);
          listener.call(transport, m, ...more);
        });
      },
    });
    transport.send = (m, ...more) => {
      if (m.method !== undefined && m.id !== undefined) this.sent.push(m);
      return send.call(transport, m, ...more);
    };
  }

  #in(m) {
    if (this.#seen.has(m)) return;
    this.#seen.add(m);
    if (m.method === undefined) {
      this.answers.set(m.id, m);
      if (m.result?.resultType === "input_required") this.asked.push(...Object.values(m.result.inputRequests ?? {}));
      return;
    }
    if (m.id !== undefined) this.asked.push({ method: m.method, params: m.params });
    else this.heard.set(m.method, [...(this.heard.get(m.method) ?? []), m.params]);
    this.#waiting = this.#waiting.filter(([found, resolve]) => !found() || resolve());
  }

  // of returns the responses to the requests of a method, from a position in the order in which they were sent.
  of(method, from) {
    return this.sent.slice(from).filter((m) => m.method === method).map((m) => this.answers.get(m.id) ?? {});
  }

  // answer returns the last of them, or an empty object if there is none. The earlier ones asked the client something.
  answer(method, from) {
    return this.of(method, from).at(-1) ?? {};
  }

  // until returns whether a condition is true, or becomes true by a message that comes within the given time.
  until(found, seconds) {
    if (found()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), seconds * 1000);
      this.#waiting.push([found, () => void (clearTimeout(timer), resolve(true))]);
    });
  }
}

export async function run(config, print) {
  if (config.stderr) config.stderr = openSync(config.stderr, "a"); // of what the client starts
  const { open } = await import(config.mode ? "./sdk2.mjs" : "./sdk1.mjs");
  const { client, transport, calls, request, greeting, lacks } = await open(config, answers({ uri: "file:///e2e/root", name: "root" }));
  const tap = new Tap(transport);

  // What the server lists decides which of a step's alternatives is run.
  const listed = { tool: new Set(), prompt: new Set(), resource: new Set() };
  const folder = (uri) => uri.slice(0, uri.lastIndexOf("/"));
  const known = ({ params: p }) =>
    p.uri ? listed.resource.has(folder(p.uri))
    : p.ref?.uri ? listed.resource.has(folder(p.ref.uri))
    : p.ref ? listed.prompt.has(p.ref.name)
    : listed.tool.has(p.name) || listed.prompt.has(p.name);

  const lists = listsOf(client);

  async function list({ method }) {
    const pages = [];
    for (let cursor, page = 0; page === 0 || cursor !== undefined; page++) {
      const from = tap.sent.length;
      await lists[method](cursor === undefined ? undefined : { cursor });
      for (const { result } of tap.of(method, from)) {
        pages.push(result);
        result.tools?.forEach((t) => listed.tool.add(t.name));
        result.prompts?.forEach((p) => listed.prompt.add(p.name));
        result.resources?.forEach((r) => listed.resource.add(folder(r.uri)));
        result.resourceTemplates?.forEach((r) => listed.resource.add(folder(r.uriTemplate)));
        cursor = result.nextCursor;
      }
    }
    return { result: pages };
  }

  const progressed = () => tap.heard.get("notifications/progress") ?? [];

  async function call({ method, params, progress, cancel }) {
    const abort = new AbortController();
    const options = { ...patience, signal: abort.signal };
    if (progress || cancel) options.onprogress = () => cancel && abort.abort("e2e");
    const from = tap.sent.length;
    const reported = progressed().length;
    const run = calls[method] ?? ((p) => request(method, p, options));
    try {
      await run(params, options);
    } catch (e) {
      if (cancel) return { result: { cancelled: abort.signal.aborted } };
      const { result, error } = tap.answer(method, from);
      return result ? { result, refused: message(e) } : { error: error ?? { message: message(e) } };
    }
    if (progress) await tap.until(() => progressed().some((p) => p.progress === p.total), 20);
    return { result: tap.answer(method, from).result ?? {}, ...(progress && { progress: progressed().slice(reported) }) };
  }

  async function play(step) {
    if (step.await) {
      const came = () => tap.heard.has(step.await) || tap.asked.some((m) => m.method === step.await);
      return { result: { seen: await tap.until(came, step.seconds) } };
    }
    if (step.notify) return await client.notification({ method: step.notify }), { result: {} };
    if (lists[step.method]) return await list(step);
    return await call(step);
  }

  await client.connect(transport);
  print({ step: "initialize", result: tap.answer("initialize", 0).result ?? greeting() });
  for (const step of JSON.parse(scenario)) {
    if (lacks?.(step) || config.not?.[step.step]) continue;
    const alternatives = step.any ? step.any.map((params) => ({ ...step, params })).filter(known) : [step];
    if (alternatives.length === 0) continue;
    print({ step: step.step, ...(await play(alternatives[0]).catch((e) => ({ error: { message: message(e) } }))) });
  }
  print({ step: "asked", result: tap.asked });
  print({ step: "heard", result: Object.fromEntries(tap.heard) });

  const child = transport._process;
  const ended = child && new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  if (child && (child.exitCode ?? child.signalCode) !== null) throw new Error(`the server ended by itself: ${child.exitCode ?? child.signalCode}`);
  if (child) { // which newer SDKs kill 4 s after the end of its stdin: a busy machine needs longer to end it
    const { kill } = child;
    child.kill = (signal) => signal !== "SIGKILL" && kill.call(child, signal);
  }
  if (transport.terminateSession) await transport.terminateSession();
  await client.close();
  if (child) print({ step: "exit", result: await ended });
  if (config.stderr) closeSync(config.stderr);
}
