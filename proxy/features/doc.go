// Package features holds what dragoman adds to a server. Each sees a session only by a small interface of its own.
//
//   - owntools serves tools of dragoman's own; adapters makes such tools, and endpoints, of adapter files;
//   - shape shortens results; footprint keeps lists of tools small;
//   - gate checks a tool call against the output of another tool, which the caller calls;
//   - replay keeps the events of streams for clients that reconnect.
package features
