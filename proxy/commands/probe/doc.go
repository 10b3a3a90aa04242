// Package probe reports what a server offers, and what clients of each revision would get of it through the proxy.
//
// A probe is a client that only reads lists. probe.go asks the server in each era that it supports, client.go reads the
// lists, capabilities.go says which client capabilities are declared, and report.go and dialects.go compare what the
// server sent with what translation makes of it. Package proxy opens the connections, by [Server].
package probe
