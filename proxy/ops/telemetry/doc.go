// Package telemetry makes OpenTelemetry spans of the messages that dragoman carries, and sends them to a collector by
// OTLP over HTTP.
//
// A message has a span at the edge where it comes in, and a child of it at the edge where it goes out: [Call] is the
// pair. own.go has the spans of what dragoman asks the server itself. names.go has the names of the conventions,
// environment.go reads the OTEL_ variables, sampler.go decides which messages have spans, context.go and mark.go read and
// write their contexts. A span is encoded when it ends (encode.go), waits in a bounded queue (queue.go), and is sent with
// others (export.go). Messages without spans stay as they came, byte for byte.
//
// The conventions are those of https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md, as of
// November 2026 (status: development).
package telemetry
