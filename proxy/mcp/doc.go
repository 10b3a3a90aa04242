// Package mcp holds what the protocol defines and all rooms of the proxy share. It knows no transport, no session and
// no setting.
package mcp
