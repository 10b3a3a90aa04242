package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// command starts the server's command and waits for its first message.
func command(ctx context.Context, e *exam) {
	u := &e.cfg.Upstream
	path, ok := e.program(u)
	if !ok {
		return
	}
	// The last moments of the check are left for the report.
	patience := e.CheckTime - e.CheckTime/10
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := strings.Join(config.SafeCommand(u.WrittenCommand()), " ")
	child := upstream.Stdio{
		Command: u.Command, Env: origin.Env(*u, os.Environ()), Dir: u.Dir, MaxMessage: int(e.cfg.Limits.UpstreamMessage),
		Quote: e.quote,
		// A server that does not end by itself is not waited for.
		CloseGrace: time.Second, TermGrace: time.Second,
	}
	begun, err := child.Connect(limited, e.initialize())
	if err != nil {
		if exit, ended := errors.AsType[*upstream.ExitError](err); ended {
			e.ok("starts", path)
			e.ended(exit, line)
			return
		}
		do := "start it by hand: " + line
		if errors.Is(err, fs.ErrNotExist) {
			do = "does the program that its first line (#!) names exist? " + do
		}
		if errors.Is(err, syscall.ENOEXEC) { // a shell would run it as a script
			do = "if it is a script, its first line must name its program, such as #!/bin/sh; if not, it must be a program for " + runtime.GOOS + " on " + runtime.GOARCH
		}
		e.fail("cannot be started: "+cause(err), line, do)
		return
	}
	e.conn = newConnection(begun, time.Now())
	e.atEnd(e.conn.close)
	e.ok("starts", path)
	if e.answer, err = e.conn.await(limited, nil, greetingID); err != nil {
		e.silent(err, line, begun.Child, patience)
		return
	}
	e.took = time.Since(e.conn.opened)
	if running := begun.Child; len(running.Printed()) > 0 {
		e.warn(fmt.Sprintf("its standard output has %s that %s not JSON-RPC: %s", plural(int(running.Noise()), "line"), isAre(int(running.Noise())), quoted(running.Printed())),
			line, "let the server write its log to standard error; dragoman skips such lines, many clients do not")
	}
	if keys := likeKeys(e.withheld()); len(keys) > 0 {
		e.info("it did not get "+strings.Join(keys, ", "), "upstream.pass_env", "-e NAME if it needs one")
	}
	e.ok("answers", line)
}

// program looks the command's program up.
func (e *exam) program(u *config.Upstream) (path string, ok bool) {
	name := u.Command[0]
	at := name
	if strings.ContainsRune(name, filepath.Separator) && u.Dir != "" && !filepath.IsAbs(name) {
		at = filepath.Join(u.Dir, name)
	}
	path, err := exec.LookPath(at)
	switch {
	case err == nil:
		return path, true
	case errors.Is(err, fs.ErrPermission):
		e.fail(name+" is not executable", "upstream.command", "chmod +x "+at)
	case strings.ContainsRune(name, filepath.Separator):
		e.fail("there is no "+at, "upstream.command", "correct the path, or install the program")
	default:
		e.fail(name+" is not in PATH", "upstream.command", "install it, or write its whole path; PATH is "+os.Getenv("PATH"))
	}
	return "", false
}

// ended reports a process that has ended before it answered.
func (e *exam) ended(exit *upstream.ExitError, line string) {
	do := failures.CommandExit.AdviceOn(exit, "")
	if do == failures.CommandExit.Advice() {
		do = "its standard error, below, says why; or start it by hand"
	}
	e.fail(fmt.Sprintf("it ended after %s without an answer (%s)", millis(exit.Lived), exit.Status), line, do)
	const few = 8
	tail := exit.Tail[max(0, len(exit.Tail)-few):]
	if above := exit.Tail[:len(exit.Tail)-len(tail)]; exit.Stderr != "" && !slices.Contains(tail, exit.Stderr) && slices.Contains(above, exit.Stderr) {
		tail = append([]string{exit.Stderr}, tail...) // the line that tells most, above a trace
	}
	for _, text := range tail {
		e.info(text, "standard error", "")
	}
	if len(tail) == 0 {
		e.info("nothing", "standard error", "")
	}
	e.reportWithheld()
}

// silent reports a process that has not answered.
func (e *exam) silent(err error, line string, running *upstream.Child, patience time.Duration) {
	if exit, is := errors.AsType[*upstream.ExitError](err); is {
		e.ended(exit, line)
		return
	}
	if bad, is := errors.AsType[*notMessageError](err); is {
		e.fail("its answer is not JSON-RPC: "+e.first(bad.text), line, failures.CommandMute.Advice())
		return
	}
	if spread, is := errors.AsType[*upstream.SpreadError](err); is {
		e.fail(spread.Error(), line, failures.CommandMute.Advice())
		return
	}
	if noise, is := errors.AsType[*upstream.NoiseError](err); is {
		e.fail(noise.Error(), line, failures.CommandMute.Advice())
		return
	}
	said := running.Mute()
	if said == nil {
		e.fail(fmt.Sprintf("it wrote messages but answered initialize with none in %v", patience), line, "is it an MCP server? its own log says more")
		return
	}
	do := failures.CommandMute.AdviceOn(said, "")
	if said.Lines > 0 {
		e.fail(fmt.Sprintf("no answer in %v; its standard output has %s that %s not JSON-RPC: %s", patience, plural(said.Lines, "line"), isAre(said.Lines), quoted(said.Said)), line, do)
	} else {
		e.fail(fmt.Sprintf("no answer in %v; its standard output is empty", patience), line, do)
	}
	if said.Stderr != "" {
		e.info(said.Stderr, "standard error", "")
	}
	e.reportWithheld()
}

// withheld returns the names of the variables that the command did not get.
func (e *exam) withheld() []string { return e.cfg.Upstream.Withheld(os.Environ()) }

// reportWithheld says which variables a command that has failed did not get.
func (e *exam) reportWithheld() {
	names := e.withheld()
	if len(names) == 0 {
		return
	}
	keysFirst := append(likeKeys(names), slices.DeleteFunc(names, namesKey)...)
	e.info("it did not get the variables "+few(keysFirst, 6), "upstream.pass_env", "-e NAME passes one, --pass-env '*' those that no setting reads")
}

func likeKeys(names []string) (keys []string) {
	for _, n := range names {
		if namesKey(n) {
			keys = append(keys, n)
		}
	}
	return keys
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// quoted returns lines in quotes.
func quoted(lines []string) string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = fmt.Sprintf("%q", l)
	}
	return strings.Join(all, ", ")
}
