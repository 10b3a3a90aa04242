// Command proxy is dragoman by the name that it had in this tree before the first
// release, for scripts that build it; "go install" names a program after its folder.
package main

import "github.com/dragoman-proxy/dragoman/cmd/command"

func main() { command.Main() }
