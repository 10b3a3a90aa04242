// Package telemetry makes OpenTelemetry spans of the messages that dragoman carries, and sends them to a collector by
// OTLP over HTTP.
//
// A message has a span at the edge where it comes in, and a child of it at the edge where it goes out: [Call] is the
// pair. names.go has the names of the conventions, environment.go reads the OTEL_ variables, sampler.go decides which
// messages have spans, and export.go sends them. Messages without spans stay as they came, byte for byte.
//
// The conventions are those of https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md, as of
// November 2026 (status: development).
package telemetry
