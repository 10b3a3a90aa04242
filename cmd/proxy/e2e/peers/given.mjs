// Plays a session with one published client, a step a job, and prints what the client's API gives: a value or an error, what the
// server told since the step before, and what it asked. Its configuration has the step under "do":
//
//   {"do":"connect","sdk":"<folder of the SDK>", … as for client.mjs …, "root":"file:///…","patience":1000}
//   {"do":"request","method":"tools/call","params":{…},"timeout":15000}
//   {"do":"close"}
//
// and others, below. "patience" is how many milliseconds a server's process has to end.
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { answers } from "./answers.mjs";
import { listsOf } from "./sdk1.mjs";

let session; // of this driver, which plays one after another

async function connect(config) {
  const told = [];
  const asked = [];
  const noting = (answer) => (request) => {
    asked.push({ method: request.method, params: request.params ?? {} });
    return answer(request);
  };
  const all = Object.entries(answers({ uri: config.root, name: "root" })).map(([name, answer]) => [name, noting(answer)]);
  const stderr = config.stderr && openSync(config.stderr, "a");
  const { open } = await import(config.mode ? "./sdk2.mjs" : "./sdk1.mjs");
  session = { told, asked, stderr, patience: config.patience, ...(await open({ ...config, stderr }, Object.fromEntries(all))) };
  const { client, transport, calls } = session;
  client.fallbackNotificationHandler = async ({ method, params }) => void told.push({ method, params: params ?? {} });
  await client.connect(transport, { timeout: config.timeout });
  const modern = client.getProtocolEra?.() === "modern";
  if (modern) await calls["logging/setLevel"]({ level: "debug" }); // which is sent with each request
  return {
    modern,
    result: { capabilities: client.getServerCapabilities(), serverInfo: client.getServerVersion(), instructions: client.getInstructions() },
  };
}

async function request({ method, params, timeout }, signal) {
  const { client, calls, told, request } = session;
  const options = { timeout, signal };
  if (method === "tools/call") options.onprogress = (progress) => told.push({ method: "notifications/progress", params: progress });
  const run = listsOf(client)[method] ?? calls[method] ?? ((p, o) => request(method, p, o));
  return { result: await run(params, options) };
}

// cancel takes a call back when it has had no answer for some milliseconds.
async function cancel(config) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort("the test"), config.after);
  try {
    return await request({ method: "tools/call", ...config }, abort.signal);
  } catch (e) {
    return abort.signal.aborted ? { none: true } : failure(e);
  } finally {
    clearTimeout(timer);
  }
}

// listen opens a subscription of a client without a session, and ends it.
async function listen({ notifications, timeout }) {
  const subscription = await session.client.listen(notifications, { timeout });
  session.told.push({ method: "notifications/subscriptions/acknowledged", params: { notifications: subscription.honoredFilter } });
  await subscription.close();
  return {};
}

async function notify({ method }) {
  await session.client.notification({ method });
  return {};
}

// settle ends when the server has told and asked nothing for some milliseconds.
async function settle({ quiet }) {
  const heard = () => session.told.length + session.asked.length;
  for (let before = -1; before !== heard(); await sleep(quiet)) before = heard();
  return {};
}

async function close() {
  const { client, transport, stderr, patience } = session;
  const child = transport._process;
  const ended = child && new Promise((resolve) => child.once("exit", resolve));
  let late;
  if (child) { // the SDKs kill it after 4 s, however long it needs
    const kill = child.kill.bind(child);
    child.kill = (signal) => signal !== "SIGKILL" && kill(signal);
    late = setTimeout(() => kill("SIGKILL"), patience);
  }
  try {
    await transport.terminateSession?.().catch(() => {}); // a server may refuse it
    await client.close();
    if (child && child.exitCode === null && child.signalCode === null) await ended;
  } finally {
    clearTimeout(late);
    if (stderr) closeSync(stderr);
    session = undefined;
  }
  return {};
}

// failure returns why a step has no result: an error of the server, a refusal in HTTP, no answer, no connection, or a result that
// the client could not read.
function failure(e) {
  const kind = e?.constructor?.name ?? "";
  const message = String(e?.message ?? e);
  if (e?.code === "REQUEST_TIMEOUT" || (e?.code === -32001 && message.endsWith("Request timed out"))) return { failed: "no answer" };
  if (["CONNECTION_CLOSED", "NOT_CONNECTED"].includes(e?.code) || /^(MCP error -32000: Connection closed|Not connected)$/.test(message)) return { ended: true };
  if (/HttpError|HTTPError|SseError/.test(kind)) return { transport: message };
  if (Number.isInteger(e?.code)) return { error: { code: e.code, message, data: e.data } };
  return { refused: message };
}

const steps = { connect, request, cancel, listen, notify, settle, close };

export async function run({ do: step, ...config }, print) {
  const answer = await steps[step](config).catch(failure);
  print({ ...answer, told: session?.told.splice(0) ?? [], asked: session?.asked.splice(0) ?? [] });
}
