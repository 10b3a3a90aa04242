// Package bytes holds the ground: no room here knows a message.
//
//   - sse and lines split streams, which inbuf has read; envelope reads what is around a message; large has the memory for large
//     ones;
//   - rawio reads, writes and watches sockets; unixsocket reads the addresses of unix sockets, and listens at them; samehead
//     compares heads of HTTP messages; callctx has the contexts of requests;
//   - quota divides a limit among clients; memlimit and openfiles read how much the system lets this process have.
package bytes
