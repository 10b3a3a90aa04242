// Package transport holds what turns bytes into messages and back. It does not interpret them, and neither side knows the other.
//
//   - downstream is the side of clients: stdio, HTTP+SSE and Streamable HTTP; it knows of MCP only the errors that it answers with;
//   - upstream is the side of the server; orphans ends the processes that it has started if dragoman is killed; unpack decodes
//     what servers compress unasked.
package transport
