// Package mcp has the parts of the protocol that the packages of the proxy share.
//
// It has the table of all errors that a client can get from dragoman ([Fail]), the JSON-RPC messages that dragoman
// writes itself, the levels of log messages, and [Peer], to which messages are sent. It does not depend on transports,
// sessions or settings.
package mcp
