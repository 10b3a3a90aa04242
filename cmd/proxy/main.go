// Command proxy is dragoman under the name that it had before the first release, for scripts that
// still build this package; "go install" names a program after its folder.
package main

import "github.com/dragoman-proxy/dragoman/cmd/command"

func main() { command.Main() }
