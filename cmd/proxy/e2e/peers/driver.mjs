// Runs the programs beside it, one after another or several at once, so that one start of Node.js and one loading of an SDK serve many
// runs.
//
// Each line on stdin is a job, {"run":1,"program":"client.mjs","config":{…}}. What the program prints comes on stdout, a line
// {"run":1,"printed":…} each, and then its end: {"run":1,"ended":""}, or {"run":1,"ended":"<why it failed>"}. This process ends with
// its stdin, with all that the programs may have left open.
import { createInterface } from "node:readline";
import { inspect } from "node:util";

for (const level of ["log", "info", "debug"]) console[level] = console.error; // what the SDKs say is not for stdout
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

async function play({ run: number, program, config }) {
  try {
    const { run } = await import(`./${program}`);
    await run(config, (printed) => say({ run: number, printed }));
  } catch (e) {
    return say({ run: number, ended: inspect(e) });
  }
  say({ run: number, ended: "" });
}

for await (const line of createInterface({ input: process.stdin })) play(JSON.parse(line));
process.exit(0);
