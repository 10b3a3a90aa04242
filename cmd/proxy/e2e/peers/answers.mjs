// How the published clients answer what servers ask.

// fill answers an elicitation form with the first value that is valid. Of booleans for the options of one list
// ("p.0", "p.1") it chooses the first, as it does for the list itself.
function fill({ properties = {} }) {
  const value = (name, p) => {
    if (p.type === "boolean") return !/\.[1-9]\d*$/.test(name);
    if (p.type === "array") return [p.items?.enum?.[0] ?? p.items?.anyOf?.[0].const];
    if (p.enum) return p.enum[0];
    if (p.oneOf) return p.oneOf[0].const;
    if (p.type === "integer" || p.type === "number") return p.minimum ?? 7;
    const formats = { email: "peer@example.com", uri: "https://example.com/", date: "2025-01-02", "date-time": "2025-01-02T03:04:05Z" };
    return formats[p.format] ?? "text".padEnd(p.minLength ?? 0, ".");
  };
  return Object.fromEntries(Object.entries(properties).map(([name, p]) => [name, value(name, p)]));
}

// answers returns how a client answers what a server asks.
export const answers = (root) => ({
  roots: () => ({ roots: [root] }),
  sample: ({ params }) => {
    const content = [params.messages?.at(-1)?.content].flat().at(-1);
    return { role: "assistant", model: "e2e", stopReason: "endTurn", content: { type: "text", text: `sampled ${content?.text ?? content?.type}` } };
  },
  elicit: ({ params }) => (params.mode === "url" ? { action: "accept" } : { action: "accept", content: fill(params.requestedSchema) }),
});
