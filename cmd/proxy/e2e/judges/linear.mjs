// Validates GraphQL documents by Linear's schema, which its SDK has as TypeScript types.
//
//   node linear.mjs NODE_MODULES < '{"name": "query { … }"}'
//
// prints a list of errors, each with the name of its document.
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const modules = process.argv[2];
const { buildSchema, parse, validate } = createRequire(join(modules, "x.js"))("graphql");

const types = new Map(); // name: {fields} or {members}
const enums = new Map();
const dist = join(modules, "@linear", "sdk", "dist");
for (const file of readdirSync(dist).filter((f) => f.endsWith(".d.mts"))) {
  const text = readFileSync(join(dist, file), "utf8");
  for (const [, name, body] of text.matchAll(/^type (\w+) = (?:\w+ & )*\{\n([\s\S]*?)^\};/gm)) {
    const fields = new Map();
    for (const [, field, optional, type] of body.matchAll(/^ {2}(\w+)(\?)?: (.+);$/gm)) {
      if (field !== "__typename") fields.set(field, (optional ?? "") + type);
    }
    types.set(name, { fields });
  }
  for (const [, name, members] of text.matchAll(/^type (\w+) = (\w+(?: \| \w+)+);$/gm)) {
    types.set(name, { members: members.split(" | ") });
  }
  for (const [, name, body] of text.matchAll(/^declare enum (\w+) \{\n([\s\S]*?)^\}/gm)) {
    enums.set(name, [...body.matchAll(/= "(\w+)"/g)].map((m) => m[1]));
  }
}

// The schema has only the types that Query and Mutation lead to: the SDK has others of its own.
const sdl = [];
const wanted = [["Query", "type"], ["Mutation", "type"]];
const done = new Set();
function graphql(type, kind) {
  if (type.startsWith("?")) return graphql(type.slice(1), kind).replace(/!$/, "");
  let m = type.match(/^(?:Input)?Maybe<(.*)>$/);
  if (m) return graphql(m[1], kind).replace(/!$/, "");
  m = type.match(/^Array<(.*)>$/);
  if (m) return `[${graphql(m[1], kind)}]!`;
  m = type.match(/^Scalars\["(\w+)"\]$/);
  const name = m ? m[1] : type;
  if (!/^\w+$/.test(name)) throw new Error(`the SDK has a type ${type}`);
  wanted.push([name, m ? "scalar" : kind]);
  return `${name}!`;
}
for (let next; (next = wanted.pop()); ) {
  const [name, kind] = next;
  if (done.has(name)) continue;
  done.add(name);
  if (kind === "scalar") {
    if (!["ID", "String", "Boolean", "Int", "Float"].includes(name)) sdl.push(`scalar ${name}`);
  } else if (enums.has(name)) {
    sdl.push(`enum ${name} { ${enums.get(name).join(" ")} }`);
  } else if (types.get(name)?.members) {
    sdl.push(`union ${name} = ${types.get(name).members.map((m) => (wanted.push([m, "type"]), m)).join(" | ")}`);
  } else if (types.get(name)?.fields.size) {
    const fields = [...types.get(name).fields].map(([field, type]) => {
      const args = types.get(`${name}${field[0].toUpperCase()}${field.slice(1)}Args`);
      const given = args && [...args.fields].map(([arg, t]) => `${arg}: ${graphql(t, "input")}`).join(", ");
      return `${field}${given ? `(${given})` : ""}: ${graphql(type, kind)}`;
    });
    sdl.push(`${kind} ${name} { ${fields.join("\n")} }`);
  } else {
    throw new Error(`the SDK has no type ${name}`);
  }
}
const schema = buildSchema(sdl.join("\n"));

const wrong = [];
for (const [name, query] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  for (const error of validate(schema, parse(query))) wrong.push(`${name}: ${error.message}`);
}
console.log(JSON.stringify(wrong));
