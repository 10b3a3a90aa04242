// Package bridge holds what stands between the two eras, named for the client, and what modern clients need.
//
//   - legacyclient lets handshake clients use modern servers: it keeps the session's state for the server, and makes each
//     input_required a request to the client;
//   - modernclient lets modern clients use handshake servers: it shares sessions that dragoman opens, and parks calls whose
//     client is asked;
//   - stateless reads what the requests of modern clients say, and sends nothing;
//   - outbox keeps messages until a client fetches them.
package bridge
