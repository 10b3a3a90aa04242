package failures

import (
	"crypto/tls"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestAdviceOnAnError: the advice follows what the error tells, and is that of the cause otherwise.
func TestAdviceOnAnError(t *testing.T) {
	exit := func(lines ...string) error {
		return &upstream.ExitError{Command: "node", Status: "exit status 1", Tail: lines}
	}
	const https, http = "https://mcp.example.com/mcp", "http://mcp.example.com/mcp"
	for _, c := range []struct {
		err          error
		server, want string
	}{
		{&upstream.Error{Op: "tls", Err: tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}, https, "use http:// in the URL"},
		{&upstream.StatusError{Code: 400, Body: []byte("Client sent an HTTP request to an HTTPS server.\n")}, http, "the server speaks TLS at this port: use https://"},
		{&upstream.Error{Op: "read", Unanswered: true, Err: io.ErrUnexpectedEOF}, http, "does this port speak TLS? then use https://"},
		{&upstream.Error{Op: "read", Unanswered: true, Err: syscall.ECONNRESET}, http, "does this port speak TLS? then use https://"},
		{&upstream.Error{Op: "read", Unanswered: true, Err: syscall.ECONNRESET}, https, StreamClosed.Advice()},
		{&upstream.Error{Op: "read", Unanswered: true, Err: io.ErrUnexpectedEOF}, https, StreamClosed.Advice()},
		{&upstream.Error{Op: "read", Err: io.ErrUnexpectedEOF}, http, StreamClosed.Advice()},
		{&upstream.Error{Op: "connect", Via: "proxy.example:3128", Err: syscall.ECONNREFUSED}, https, "is the web proxy of HTTPS_PROXY or HTTP_PROXY running"},
		{&upstream.Error{Op: "connect", Err: &upstream.ProxyError{Code: 407}}, https, WebProxy.Advice()},
		{&upstream.StatusError{Code: 302, Target: "https://login.example.com/start"}, https, "dragoman follows no redirects: if the target is the server, use it as the URL (upstream.url); if a login page, --header"},
		{&upstream.StatusError{Code: 308, Target: "https://mcp.example.com/mcp/"}, https, "dragoman follows no redirects: use the target as the URL (upstream.url)"},
		{&upstream.StatusError{Code: 308, Target: "/mcp/"}, https, "dragoman follows no redirects: use the target as the URL (upstream.url)"},
		{&upstream.StatusError{Code: 307, Target: "http://mcp.example.com/mcp/"}, https, "dragoman follows no redirects: the target is not encrypted"},
		{&upstream.StatusError{Code: 301}, https, HTTPStatus.Advice()},
		{&upstream.StatusError{Code: 502}, https, "the server, or a gateway before it, fails"},
		{&upstream.StatusError{Code: 405}, https, HTTPStatus.Advice()},
		{exit("Error: Cannot find module '/srv/server.js'", "at Function._resolveFilename (node:internal)", "Node.js v20.20.2"), "", "is the script at this path?"},
		{exit("python3: can't open file '/srv/server.py': [Errno 2] No such file or directory"), "", "is the script at this path?"},
		{exit(`error: Module not found "file:///srv/server.ts".`), "", "is the script at this path?"},
		{exit("npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/srv/package.json'"), "", "is the script at this path?"},
		{exit("Error: Cannot find module 'express'", "Node.js v20.20.2"), "", "a library of the server is missing"},
		{exit("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/server.js", "Node.js v20.20.2"), "", "a library of the server is missing"},
		{exit("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'mcp'"), "", "a library of the server is missing"},
		{exit("npm error code E404", "npm error 404 Not Found - GET https://registry.npmjs.org/nowhere"), "", "there is no such package"},
		{exit("file:///srv/a.mjs:1", "SyntaxError: Unexpected token '.'", "at wrapSafe (internal/modules/cjs/loader.js:1001:16)", "Node.js v12.22.9"), "",
			"Node.js v12.22.9 ran it, which seems too old for it: begin the command with the path of a newer node"},
		{exit("npm warn EBADENGINE   required: { node: '>=22' },", "ReferenceError: File is not defined", "Node.js v18.20.4"), "", "it needs Node.js >=22, and v18.20.4 ran it: begin the command with the path of a newer node"},
		{exit("npm WARN EBADENGINE   required: { node: '>=20' },", "npm WARN EBADENGINE   current: { node: 'v16.20.2', npm: '8.19.4' }", "file:///srv/a.js:3", "SyntaxError: Unexpected token '??='"), "",
			"it needs Node.js >=20, and v16.20.2 ran it: begin the command with the path of a newer node"},
		{exit("npm WARN EBADENGINE   required: { node: '>=20' },", "npm WARN EBADENGINE   current: { node: 'v16.20.2', npm: '8.19.4' }", "Error: API_KEY is not set"), "", CommandExit.Advice()},
		{&upstream.Error{Op: "connect", Err: syscall.ECONNREFUSED}, http, "start the server, or correct its URL (upstream.url)"},
		{&upstream.Error{Op: "connect", Err: syscall.ECONNREFUSED}, "unix:/run/s.sock:/mcp", "start the server, or correct the path of its unix socket"},
		{&upstream.Error{Op: "start", Err: &exec.Error{Name: "srv", Err: exec.ErrNotFound}}, "", "no directory of PATH has this program"},
		{&upstream.Error{Op: "start", Err: &fs.PathError{Op: "fork/exec", Path: "/no/such/srv", Err: syscall.ENOENT}}, "", "correct its path in the command (upstream.command), or install it"},
		{&upstream.Error{Op: "start", Err: &fs.PathError{Op: "fork/exec", Path: os.Args[0], Err: syscall.ENOENT}}, "", "the file is there: does the program exist that its first line"},
		{&upstream.Error{Op: "start", Err: &fs.PathError{Op: "chdir", Path: "/no/such", Err: syscall.ENOENT}}, "", "is there this directory"},
		{&upstream.Error{Op: "start", Err: &fs.PathError{Op: "fork/exec", Path: os.Args[0], Err: syscall.EACCES}}, "", CommandNotFound.Advice()},
		{exit("This server requires Node.js version 20.18 or newer"), "", "the server needs Node.js 20.18"},
		{exit("npm warn EBADENGINE   required: { node: '>=22' },", "Error: API_KEY is not set", "Node.js v18.20.4"), "", CommandExit.Advice()},
		{exit("Error: listen EADDRINUSE: address already in use :::3000", "Node.js v20.20.2"), "", "another process has the port"},
		{&upstream.MuteError{Stderr: "MCP server listening on http://localhost:3000/mcp"}, "", "it seems to listen for HTTP"},
		{&upstream.MuteError{}, "", "is it an MCP server on stdio, and not on HTTP?"},
		{&upstream.MuteError{Lines: 1, Said: []string{"hello"}}, "", CommandMute.Advice()},
		{exit("license expired"), "", CommandExit.Advice()},
		{exit(), "", CommandExit.Advice()},
	} {
		if got := Of(c.err).AdviceOn(c.err, c.server); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	for _, c := range All() {
		if c.AdviceOn(nil, "") != c.Advice() {
			t.Errorf("%s: %q", c, c.AdviceOn(nil, ""))
		}
	}
}
