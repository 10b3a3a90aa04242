// A client of the published SDK that makes calls as tasks, and prints each question and each result. Its configuration is
// {"sdk": folder, "url": the server's URL}.
import { patient } from "./sdk1.mjs";

export async function run({ sdk, url }, print) {
  const { Client } = await import(`${sdk}/dist/esm/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${sdk}/dist/esm/client/streamableHttp.js`);
  const { CallToolResultSchema, ElicitRequestSchema } = await import(`${sdk}/dist/esm/types.js`);

  const client = patient(new Client({ name: "tasks", version: "1" }, { capabilities: { elicitation: {} } }));
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    print({ asked: params.message, related: params._meta !== undefined, schema: params.requestedSchema });
    return { action: "accept", content: { interpretation: "technical" } };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  print({ calls: client.getServerCapabilities().tasks?.requests?.tools?.call });
  await client.listTools();
  for (const ambiguous of [true, false]) {
    const call = { name: "simulate-research-query", arguments: { topic: "tea", ambiguous } };
    for await (const step of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: { ttl: 600_000 } })) {
      if (step.type === "taskCreated") print({ created: step.task.status });
      if (step.type === "result") print({ result: step.result.content });
      if (step.type === "error") print({ error: step.error.message });
    }
  }
  await client.close();
}
