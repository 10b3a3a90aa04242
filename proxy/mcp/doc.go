// Package mcp has what the rooms of the proxy say to each other and to clients in the protocol's words.
//
// It has the table of all errors that a client can get from us ([Fail]), the JSON-RPC messages that we write ourselves, and
// the levels of log messages. It knows no transport, no session and no setting.
package mcp
