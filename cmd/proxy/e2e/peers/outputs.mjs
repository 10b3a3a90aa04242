// Lists tools and calls them, as a published client that validates structured content. The first argument is a JSON object: the
// client (see open), and the calls as [tool, arguments]. It prints what came of each.
const config = JSON.parse(process.argv[2]);
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
console.log(JSON.stringify(said));
