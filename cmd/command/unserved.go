package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	unservedWait  = 2 * time.Second // for the client's next request
	unservedBytes = 1 << 20         // of what a client sends meanwhile
)

// answerUnserved answers the requests of a client that has started dragoman with "stdio" and wrong arguments or a wrong configuration,
// or with a server alone: it shows its user the answer to initialize, and seldom what a command writes to stderr. It returns when the client ends in, or sends
// no further request.
func answerUnserved(in io.Reader, out io.Writer, wait time.Duration, err error) {
	text := err.Error()
	if way, ok := errors.AsType[*noCommandError](err); ok {
		text = way.stdio
	}
	if strings.Contains(text, "environment variable ") && strings.HasSuffix(text, " is not set") {
		text += `: set it in "env" of the client's entry`
	}
	text = "dragoman cannot start: " + failures.Quote(setting.OneLine(text))
	lines := make(chan []byte)
	go func() { // it may wait for ever, which ends with the process
		defer close(lines)
		from := bufio.NewReader(io.LimitReader(in, unservedBytes))
		for {
			line, err := from.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	patience := time.NewTimer(wait)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			var m wire.Message
			if m.Scan(line, nil) != nil || m.Kind != wire.Request {
				continue
			}
			if _, err := out.Write(append(mcp.AppendError(nil, slices.Clone(m.ID()), mcp.CodeInternal, text, nil), '\n')); err != nil {
				return
			}
			patience.Reset(wait)
		case <-patience.C:
			return
		}
	}
}

// isUnserved reports whether a process with these arguments, which has ended with err, has left a client without an answer. The lines of
// other tools have their exit codes.
func isUnserved(args []string, err error) bool {
	_, noCommand := errors.AsType[*noCommandError](err)
	given := func(command string) bool { return len(args) > 1 && args[1] == command }
	return (err != nil && given("as") || exitCode(err) == exitUsage && (noCommand || given("stdio"))) &&
		!term.IsTerminal(int(os.Stdin.Fd())) && !slices.ContainsFunc(args, isHelp)
}

func isHelp(arg string) bool { return strings.TrimLeft(arg, "-") == "help" }
