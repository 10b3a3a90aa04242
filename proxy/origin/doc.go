// Package origin opens connections to the server that the configuration names: a URL, a command,
// or none where dragoman serves only tools of its own. With the connection come the settings of
// TLS and of the web proxy, the process's environment, and the credential of upstream.auth.
//
// An [Origin] is made once per configuration. It has functions instead of methods, so that tests
// and the demo can be a server in this process.
//
// The rooms: era finds out whether the server has a handshake, and which revisions to propose; restart keeps a session when its
// server restarts; share lets several clients use one process of a server.
package origin
