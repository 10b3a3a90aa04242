package report

import (
	"errors"
	"os"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// finding is what a look at the server has found.
type finding struct {
	cause  failures.Cause
	advice string
}

// adviceOn returns what to do about a failure of this cause. found is what a look at the server has found; nil for nothing.
func adviceOn(c failures.Cause, err error, at At, cfg *config.Config, found *finding) string {
	if found != nil && at.Server == nil && (found.cause == c || found.cause == failures.TLSPlain && c == failures.StreamClosed) {
		return found.advice
	}
	if exit, ok := errors.AsType[*upstream.ExitError](err); ok {
		if advice := cfg.Upstream.AdviceOnWithheld(os.Environ(), exit.Tail); advice != "" {
			return advice
		}
	}
	if c == failures.Unauthorized {
		if advice := cfg.Upstream.AdviceOnRefused(); advice != "" {
			return advice
		}
	}
	if c == failures.StreamClosed && at.Server != nil { // which has answered before: the URL is right
		return c.Advice()
	}
	return c.AdviceOn(err, cfg.Upstream.URL)
}

// maxPlace bounds the bytes of an address or a command in the text for a client.
const maxPlace = 200

// explain appends to the text that the client gets where the server is, if the client is near, and what to do, as the log has it. A text of the server's own
// stays as it is, since programs may compare it.
func explain(f *mcp.Failure, c failures.Cause, at At, near bool, cfg *config.Config, found *finding, secrets []*secret.Set) {
	if f.Verbatim != nil || !c.Explained() || isServers(f) || c == failures.NoCredential && f.Text != f.Cause.Text() {
		return // the last one says itself what to do
	}
	if at.Method == wire.Initialize.String() { // which may be done twice
		f.Text = strings.TrimSuffix(f.Text, MayBeDone)
	}
	if near && (cfg.Upstream.URL != "" || len(cfg.Upstream.Command) > 0) { // a program that embeds dragoman may have a server of its own
		f.Text += " (" + place(&cfg.Upstream, f.Err, secrets) + ")"
	}
	if c == failures.NoCredential { // whose reason, as the name of a file, is in the log alone
		f.Text += "; dragoman's log says why"
		return
	}
	if !near { // it may name an address
		found = nil
	}
	f.Text += "; " + adviceOn(c, f.Err, at, cfg, found)
}

// isServers reports whether the text of f is of the server's JSON-RPC error.
func isServers(f *mcp.Failure) bool {
	status, ok := errors.AsType[*upstream.StatusError](f.Err)
	return ok && f.Cause == mcp.UpstreamRefused && !strings.HasPrefix(f.Text, "upstream ") && len(status.Body) > 0
}

// place returns where the server is, without what may be secret.
func place(u *config.Upstream, err error, secrets []*secret.Set) string {
	if len(u.Command) > 0 {
		line := failures.Quote(strings.Join(config.StruckCommand(u.WrittenCommand(), secret.Struck), " "), secrets...)
		return "command: " + failures.Beginning(line, maxPlace)
	}
	at := "at " + failures.Beginning(secret.Strike(config.SafeURL(u.URL), secrets...), maxPlace)
	if by, ok := errors.AsType[*upstream.Error](err); ok && by.Via != "" {
		at += " by way of the web proxy " + by.Via
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok && status.Target != "" {
		at += ", which redirects to " + failures.TargetOf(status, u.URL)
	}
	return at
}

// Told returns what a client on this machine gets about err, a failure of the server at the beginning of a session.
func Told(err error, cfg *config.Config) string {
	f, at := FailureOf(err), At{Method: wire.Initialize.String()}
	if f.UnknownSession() {
		f.NoEndpoint()
	}
	explain(f, CauseOf(cfg, f, at), at, true, cfg, nil, nil)
	return f.Text
}
