package failures

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// AdviceOn returns what an operator can do about err, whose cause is c, at a server with this URL, which is "" for a command. It is the
// advice of c unless err tells more.
func (c Cause) AdviceOn(err error, server string) string {
	if err == nil {
		return c.Advice()
	}
	special := ""
	switch c {
	case TLSPlain:
		special = onTLSPlain(err)
	case StreamClosed:
		if at, ok := errors.AsType[*upstream.Error](err); ok && strings.HasPrefix(server, "http://") && at.Op == "read" && at.Unanswered && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) {
			special = "does this port speak TLS? then use https:// in the URL (upstream.url); else its own log says why it closed the connection"
		}
	case Refused:
		if unixsocket.Is(server) {
			special = "start the server, or correct the path of its unix socket in the URL (upstream.url)"
		}
	case CommandNotFound:
		special = onStart(err)
	case WebProxy:
		if _, answered := errors.AsType[*upstream.ProxyError](err); !answered {
			special = "is the web proxy of HTTPS_PROXY or HTTP_PROXY running, and its address right? unset the variable, or name the server's host in NO_PROXY, if the server is reached without one"
		}
	case HTTPStatus:
		if status, ok := errors.AsType[*upstream.StatusError](err); ok {
			special = onStatus(status, server)
		}
	case CommandMute:
		if mute, ok := errors.AsType[*upstream.MuteError](err); ok {
			special = onMute(mute)
		}
	case CommandExit:
		if exit, ok := errors.AsType[*upstream.ExitError](err); ok {
			special = onExit(exit)
		}
	}
	if special != "" {
		return special
	}
	return c.Advice()
}

// unexplained are the causes of failures whose text for the client says all that helps it: they are about the client or a limit, or the
// client acts on them itself.
var unexplained = []Cause{"", RateLimited, Busy, ReplicaLost, ClientLeft, Cancelled, Untranslatable, EraChanged, Revision, Refusal, SessionLost, UnknownID, NoToken, NotAllowed, SlowClient, Dropped, Panic}

// Explained reports whether the text that a client gets about a failure of this cause says where it happened and what to do.
func (c Cause) Explained() bool { return !slices.Contains(unexplained, c) }

func onTLSPlain(err error) string {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return "use http:// in the URL (upstream.url), or the port where the server speaks TLS"
	}
	return "the server speaks TLS at this port: use https:// in the URL (upstream.url)"
}

// onStatus returns the advice on a status, other than those with causes of their own.
func onStatus(e *upstream.StatusError, server string) string {
	switch {
	case e.Code >= 300 && e.Code < 400 && e.Target != "":
		return afterRedirect(TargetOf(e, server), server)
	case e.Code >= 500:
		return "the server, or a gateway before it, fails: its own log says more"
	}
	return ""
}

// TargetOf returns the whole target of a redirect by the server at a URL, without credentials and query.
func TargetOf(e *upstream.StatusError, server string) string {
	at, err := url.Parse(server)
	if err != nil {
		return e.Target
	}
	to, err := at.Parse(e.Target)
	if err != nil {
		return e.Target
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return to.String()
}

// afterRedirect returns the advice on a redirect to a URL. It is worth a try only at the same host: others are login pages of gateways.
func afterRedirect(target, server string) string {
	to, err := url.Parse(target)
	at, wrong := url.Parse(server)
	switch {
	case err != nil || wrong != nil || to.Hostname() != at.Hostname():
		return "dragoman follows no redirects: if the target is the server, use it as the URL (upstream.url); if a login page, --header 'Authorization: …'"
	case at.Scheme == "https" && to.Scheme == "http":
		return "dragoman follows no redirects: the target is not encrypted, so the server's settings for a proxy before it may be wrong; dragoman doctor says more"
	}
	return "dragoman follows no redirects: use the target as the URL (upstream.url), if it is not a login page"
}

// onStart returns the advice on a command that cannot be started; "" if the error does not tell more.
func onStart(err error) string {
	switch path, named := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, exec.ErrNotFound):
		return "no directory of PATH has this program: install it, or write its whole path into the command (upstream.command)"
	case named && path.Op == "chdir":
		return "is there this directory, and may this user read it? correct upstream.dir (--cwd)"
	case MissingProgram(err) != "":
		return "correct its path in the command (upstream.command), or install it"
	case named && errors.Is(err, fs.ErrNotExist):
		return "the file is there: does the program exist that its first line (#!) names?"
	}
	return ""
}

// MissingProgram returns the path of the program that err says cannot be started, if there is no such file; else "".
func MissingProgram(err error) string {
	path, named := errors.AsType[*fs.PathError](err)
	if !named || path.Op == "chdir" || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if _, err := os.Stat(path.Path); err == nil {
		return ""
	}
	return path.Path
}

// clues are what programs say on standard error before they end, and what to do then. The first that fits counts.
var clues = []struct {
	says   func() *regexp.Regexp
	advice string
}{
	{pattern.Later(`(?i)requires (?:at least )?node(?:\.?js)?(?: version)? ?([v>=^~]*\d[\d.x]*)`), "the server needs Node.js $1: install it, or begin the command with the path of that node"},
	{pattern.Later(`^Error: Cannot find module '(?:[A-Za-z]:|/|\.)|^Error \[ERR_MODULE_NOT_FOUND\]: Cannot find module|can't open file '|^npm (?:error|ERR!) enoent Could not read package\.json|^[Ee]rror: Module not found "file:`), "is the script at this path? name its whole path in the command, and install or build it first"},
	{pattern.Later(`^(Error: Cannot find module|Error \[ERR_MODULE_NOT_FOUND\]: Cannot find package|ModuleNotFoundError: No module named|ImportError: )`), "a library of the server is missing: install what it needs (npm install, pip install) in its directory"},
	{pattern.Later(`^npm (error|ERR!) (code E404|404 )|No solution found when resolving|was not found in the package registry`), "there is no such package: check its name and version in the command"},
	{pattern.Later(`^npm (error|ERR!) .*(ENOTFOUND|ETIMEDOUT|ECONNREFUSED|EAI_AGAIN)`), "the package cannot be fetched: check the network and the registry, or install it first"},
	{pattern.Later(`(?i)EADDRINUSE|address already in use`), "another process has the port that the server wants: end it, or give the server another port"},
}

// newerNode matches what an older Node.js says of a program for a newer one.
var newerNode = pattern.Later(`^(SyntaxError: |ReferenceError: (File|fetch|WebSocket|ReadableStream|CustomEvent|navigator|crypto) is not defined|TypeError: .*(withResolvers|getBuiltinModule|toSorted|findLast)\b.* is not a function|Error \[ERR_(REQUIRE_ESM|UNKNOWN_BUILTIN_MODULE|IMPORT_ATTRIBUTE_MISSING)\]|Error: No such built-in module)`)

// nodeVersion matches the line with which Node.js ends what it says of an error.
var nodeVersion = pattern.Later(`^Node\.js (v\d+[\d.]*)`)

// neededNode and usedNode match what npm says of a package for another version of Node.js.
var (
	neededNode = pattern.Later(`required: \{[^}]*node: '([^']+)'`)
	usedNode   = pattern.Later(`current: \{[^}]*node: '(v[^']+)'`)
)

// onExit returns the advice on a process that has ended, from what it has said; "" if that tells nothing.
func onExit(e *upstream.ExitError) string {
	lines := e.Tail
	if len(lines) == 0 && e.Stderr != "" {
		lines = []string{e.Stderr}
	}
	for _, c := range clues {
		for _, line := range lines {
			if at := c.says().FindStringSubmatchIndex(line); at != nil {
				return string(c.says().ExpandString(nil, c.advice, line, at))
			}
		}
	}
	version, needs := "", ""
	for _, line := range lines {
		if v := nodeVersion().FindStringSubmatch(line); v != nil {
			version = v[1]
		}
		if v := neededNode().FindStringSubmatch(line); v != nil {
			needs = v[1]
		}
		if v := usedNode().FindStringSubmatch(line); v != nil && version == "" { // old versions do not end with theirs
			version = v[1]
		}
	}
	if version == "" || !slices.ContainsFunc(lines, func(line string) bool { return newerNode().MatchString(line) }) {
		return ""
	}
	if needs != "" {
		return "it needs Node.js " + needs + ", and " + version + " ran it: begin the command with the path of a newer node"
	}
	return "Node.js " + version + " ran it, which seems too old for it: begin the command with the path of a newer node, or correct the script"
}

// listens matches what servers print that are reached by HTTP.
var listens = pattern.Later(`(?i)\b(listening|https?://|port \d|streamable http)`)

// onMute returns the advice on a process that has sent no message; "" if what it has printed tells nothing.
func onMute(e *upstream.MuteError) string {
	switch {
	case listens().MatchString(strings.Join(append(slices.Clone(e.Said), e.Stderr), "\n")):
		return "it seems to listen for HTTP: start it without the option for that, or by itself, and give dragoman its URL"
	case e.Lines == 0:
		return "is it an MCP server on stdio, and not on HTTP? If it is still being downloaded (npx, uvx), start it once by hand and try again"
	}
	return ""
}
