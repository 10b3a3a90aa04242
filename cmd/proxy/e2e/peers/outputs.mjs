// Lists tools and calls them, as a published client that validates structured content. Its configuration names the client (see
// open), and the calls as [tool, arguments]. It prints what came of each.
import { closeSync, openSync } from "node:fs";

export async function run(config, print) {
  if (config.stderr) config.stderr = openSync(config.stderr, "a"); // of what the client starts
  const { open } = await import(config.line === 2 ? "./sdk2.mjs" : "./sdk1.mjs");
  const { client, transport } = await open(config);
  await client.connect(transport);
  const { tools } = await client.listTools();
  const said = { typed: tools.filter((t) => t.outputSchema).map((t) => t.name), results: [] };
  for (const [name, args] of config.calls) {
    try {
      const { content, structuredContent, isError } = await client.callTool({ name, arguments: args });
      said.results.push({ text: content[0].text, structured: structuredContent, isError, error: "" });
    } catch (e) {
      said.results.push({ error: e.message });
    }
  }
  await client.close();
  if (config.stderr) closeSync(config.stderr);
  print(said);
}
