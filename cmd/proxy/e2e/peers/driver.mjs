// Runs the programs beside it one after another, so that one start of Node.js and one loading of an SDK serve many runs.
//
// Each line on stdin is a job, {"program":"client.mjs","config":{…}}. What the program prints comes on stdout, a line
// {"printed":…} each, and then its end: {"ended":""}, or {"ended":"<why it failed>"} and the end of this process, with
// all that the program may have left open.
import { createInterface } from "node:readline";
import { inspect } from "node:util";

for (const level of ["log", "info", "debug"]) console[level] = console.error; // what the SDKs say is not for stdout
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { program, config } = JSON.parse(line);
  try {
    const { run } = await import(`./${program}`);
    await run(config, (printed) => say({ printed }));
  } catch (e) {
    say({ ended: inspect(e) });
    process.exit(1);
  }
  say({ ended: "" });
}
process.exit(0);
