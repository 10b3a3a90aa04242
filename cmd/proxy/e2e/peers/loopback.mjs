// Preloaded into published servers that listen on every interface: keeps them on 127.0.0.1, on the port in LOOPBACK_PORT
// or one that the system picks, and prints the port on stderr. They close no idle connection: Node.js does so after 5 s, which
// on a busy machine resets a connection on which a request has just come. They are killed in the end, and Node.js would write what it
// has compiled only at an end of their own: so that is written when they listen (NODE_COMPILE_CACHE, Node.js 22).
import * as modules from "node:module";
import { Server } from "node:net";

const listen = Server.prototype.listen;
Server.prototype.listen = function (...args) {
  if ("keepAliveTimeout" in this) this.keepAliveTimeout = 0;
  this.once("listening", () => {
    process.stderr.write(`loopback: http://127.0.0.1:${this.address().port}\n`);
    modules.flushCompileCache?.();
  });
  return listen.call(this, { host: "127.0.0.1", port: Number(process.env.LOOPBACK_PORT ?? 0) }, args.findLast((a) => typeof a === "function"));
};
