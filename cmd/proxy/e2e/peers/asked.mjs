// Calls a tool that asks its user something, several times at once, with one published client of either line (its
// configuration is as in client.mjs), and prints the texts of the results. config.me is part of the questions and of the
// answers.
import { patience } from "./sdk1.mjs";

export async function run(config, print) {
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
      const { content } = await calls["tools/call"]({ name: "ask", arguments: { who } }, patience);
      return content[0].text;
    } catch (e) {
      return `${who}: ${e?.message ?? e}`;
    }
  };
  print(await Promise.all(Array.from({ length: times }, (_, i) => call(`${me}${i}`))));
  await client.close();
}
