// Calls a tool that asks, several times at once, with one published client of either line (client.mjs says how it is told).
// Each line on stdout is the text of one result. config.me goes into what is asked and into what is answered.
const config = JSON.parse(process.argv[2]);
const { me, calls: times } = config;

const answers = {
  roots: () => ({ roots: [] }),
  sample: () => ({ role: "assistant", model: "e2e", content: { type: "text", text: "" } }),
  elicit: async ({ params }) => {
    await new Promise((resolve) => setTimeout(resolve, 300)); // a user thinks, and others are asked meanwhile
    return { action: "accept", content: { answer: `${me} was asked: ${params.message}` } };
  },
};
const { open } = await import(config.mode ? "./sdk2.mjs" : "./sdk1.mjs");
const { client, transport, calls } = await open(config, answers);
await client.connect(transport);
await client.listTools();
const call = async (who) => {
  try {
    const { content } = await calls["tools/call"]({ name: "ask", arguments: { who } }, { timeout: 60_000 });
    return content[0].text;
  } catch (e) {
    return `${who}: ${e?.message ?? e}`;
  }
};
const texts = await Promise.all(Array.from({ length: times }, (_, i) => call(`${me}${i}`)));
process.stdout.write(texts.join("\n") + "\n");
await client.close();
process.exit(0); // early SDKs leave an EventSource open
