// Command dragoman translates between MCP clients and servers that speak different
// revisions of the protocol.
package main

import "github.com/dragoman-proxy/dragoman/cmd/command"

func main() { command.Main() }
