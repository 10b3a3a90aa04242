// Logs in to a server as the TypeScript SDK's own clients do, and calls its tool. Arguments: the folder of
// installed packages, the SDK's version and the URL. Prints a transcript of the login as JSON.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { patient } from "./sdk1.mjs";

const [modules, version, url] = process.argv.slice(2);
const sdk = (file) => import(pathToFileURL(join(modules, `sdk-${version}/dist/esm`, file)));
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");

const asked = [];
const fetched = globalThis.fetch;
globalThis.fetch = async (at, options) => {
  const answer = await fetched(at, options);
  const where = new URL(at instanceof Request ? at.url : at);
  if (options?.method !== "GET" || where.pathname !== new URL(url).pathname) // whose answer may come any time: it is a stream
    asked.push(`${options?.method ?? "GET"} ${where.origin === new URL(url).origin ? "" : "elsewhere "}${where.pathname} ${answer.status}`);
  return answer;
};

let code;
const kept = {};
const provider = {
  get redirectUrl() { return "http://127.0.0.1:1/callback"; },
  get clientMetadata() { return { client_name: "e2e", redirect_uris: [this.redirectUrl], grant_types: ["authorization_code"], response_types: ["code"], token_endpoint_auth_method: "none" }; },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  async redirectToAuthorization(page) { // in the place of a browser and a user who agrees
    const answer = await fetch(page, { redirect: "manual" });
    code = new URL(answer.headers.get("location")).searchParams.get("code");
  },
};
const client = patient(new Client({ name: "e2e", version: "1.0.0" }));
const first = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
try {
  await client.connect(first);
  throw new Error("it needs no login");
} catch (e) {
  if (e.constructor.name !== "UnauthorizedError") throw e;
}
await first.finishAuth(code);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
const result = await client.callTool({ name: "whoami", arguments: {} });
console.log(JSON.stringify({ asked, client: kept.client.client_id, text: result.content[0].text }));
await client.close();
process.exit(0);
