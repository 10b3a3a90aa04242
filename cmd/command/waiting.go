package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// sayWaiting tells a person whose terminal is in what a command waits for: without it the command seems to do nothing.
func sayWaiting(out io.Writer, in io.Reader, what string) {
	f, ok := in.(*os.File)
	if !ok {
		return
	}
	fd := int(syscall.Stdin)
	if f != os.Stdin { // whose Fd would make it blocking
		fd = int(f.Fd())
	}
	if term.IsTerminal(fd) {
		fmt.Fprintln(out, "dragoman:", what)
	}
}

// sayReading is [sayWaiting] for a command that reads stdin to its end.
func sayReading(cmd *cobra.Command) {
	sayWaiting(cmd.ErrOrStderr(), cmd.InOrStdin(), "this reads what you type until Ctrl-D; usage: "+strings.TrimSuffix(cmd.UseLine(), " [flags]"))
}

// atTerminal is the text for a user that starts stdio in a terminal.
const atTerminal = "stdio waits for the messages of a client, which starts it; Ctrl-C ends it. For clients that connect over HTTP there is dragoman serve"
