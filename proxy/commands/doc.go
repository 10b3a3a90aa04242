// Package commands holds what serves no client.
//
//   - doctor examines a configuration, this machine and a server, step by step;
//   - probe reports what clients of each revision get of a server;
//   - filter translates lines without a connection;
//   - demo is a server to try dragoman with.
package commands
