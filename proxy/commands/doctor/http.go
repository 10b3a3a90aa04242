package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// proposed returns the revision that initialize proposes.
func (e *exam) proposed() *translate.Revision {
	if r := translate.Lookup(e.cfg.Upstream.Version); r != nil && !r.Modern {
		return r
	}
	return translate.Latest()
}

func (e *exam) initialize() *upstream.Outgoing {
	return &upstream.Outgoing{Request: true, Body: mcp.Initialize(greetingID, e.proposed().Name, declared, us)}
}

// overHTTP sends initialize to the server at upstream.url and judges the HTTP response.
func overHTTP(ctx context.Context, e *exam) {
	at, err := url.Parse(e.cfg.Upstream.URL)
	if err != nil {
		return // Validate has refused it
	}
	where := config.SafeURL(e.cfg.Upstream.URL)
	e.conn, err = e.connect(ctx, e.cfg)
	if err == nil {
		e.atEnd(e.conn.close)
		e.answer, err = e.conn.await(ctx, e.conn.answer, greetingID)
		e.took = time.Since(e.conn.opened)
	}
	if body := refusal(err); body != nil {
		e.answer, err = body, nil
		e.ok("answers with a JSON-RPC error", where)
		e.loggedIn()
		return
	}
	if err != nil {
		e.unanswered(ctx, err, at, where)
		return
	}
	how := "Streamable HTTP"
	if e.conn.arrives != nil {
		how = "HTTP+SSE"
	}
	e.ok("answers over "+how, where)
	e.loggedIn()
}

// loggedIn reports that the server has accepted the stored login, and names the other commands that send it.
func (e *exam) loggedIn() {
	if e.cfg.Upstream.Auth.Type != config.AuthLogin || e.sent.Set() == nil {
		return
	}
	do := ""
	if e.borrowed {
		do = "dragoman stdio uses it too; for dragoman serve write upstream.auth: {type: login}"
	}
	e.add(Line{Mark: OK, What: "the login of dragoman login is used, and the server accepts it", Where: "upstream.auth", Do: do})
}

// connect opens a connection to the server that cfg names by a URL, and sends initialize.
func (e *exam) connect(ctx context.Context, cfg config.Config) (*connection, error) {
	o, err := e.world.Of(cfg, zap.NewNop())
	if err != nil {
		return nil, err
	}
	e.atEnd(o.Close)
	e.sent = &o.Credentials.Sent
	opened := time.Now()
	begun, err := o.Connect(ctx, e.initialize())
	if err != nil {
		return nil, err
	}
	return newConnection(begun, opened), nil
}

// lent names the setting whose credential the requests carried, or "".
func (e *exam) lent() string {
	u := &e.cfg.Upstream
	for name := range u.Headers {
		if strings.EqualFold(name, "Authorization") || secret.Named(name) || strings.Contains(strings.ToLower(name), "key") {
			return "upstream.headers." + name
		}
	}
	switch {
	case u.Auth.Lends():
		return "upstream.auth"
	case u.ClientCert != "":
		return "upstream.client_cert"
	}
	return ""
}

// unanswered reports why initialize has no answer.
func (e *exam) unanswered(ctx context.Context, err error, at *url.URL, where string) {
	if status, is := errors.AsType[*upstream.StatusError](err); is {
		e.status(ctx, status, at, where)
		return
	}
	switch kind, is := errors.AsType[*upstream.ContentTypeError](err); {
	case is && strings.Contains(kind.Type, "html"):
		e.misplaced(ctx, "the answer is a web page (text/html), not MCP", at, where, failures.NotMCP.Advice())
		return
	case is:
		e.misplaced(ctx, kind.Error(), at, where, failures.NotMCP.Advice())
		return
	}
	if bad, is := errors.AsType[*notMessageError](err); is {
		e.misplaced(ctx, "the answer is not JSON-RPC: "+e.first(bad.text), at, where, failures.Malformed.Advice())
		return
	}
	if lacks, is := errors.AsType[*upstream.CredentialError](err); is {
		e.fail("there is no credential for the server: "+e.quote(lacks.Error()), "upstream.auth", "dragoman login "+where+"; docs/authorization.md explains upstream.auth")
		return
	}
	if at.Scheme == "http" && failures.Of(err) == failures.StreamClosed {
		if state, _, _ := e.handshake(ctx, at, nil); state != nil {
			e.plainToTLS(at, where)
			return
		}
	}
	what, do := e.quote(err.Error()), failures.Of(err).AdviceOn(err, where)
	if errors.Is(err, context.DeadlineExceeded) || failures.Of(err) == failures.TimeoutFirstByte {
		what, do = fmt.Sprintf("no answer to initialize within %v", e.CheckTime), whenSlow
	}
	e.fail(what, where, do)
}

func (e *exam) plainToTLS(at *url.URL, where string) {
	e.why = failures.TLSPlain
	e.fail("the server speaks TLS, and this URL begins with http://", where, "use "+withScheme(at, "https")+" (upstream.url)")
}

// status reports a refusal by its HTTP status.
func (e *exam) status(ctx context.Context, s *upstream.StatusError, at *url.URL, where string) {
	name := upstream.Status(s.Code)
	switch {
	case failures.Of(s) == failures.TLSPlain:
		e.plainToTLS(at, where)
	case failures.Of(s) == failures.HostRefused:
		e.fail(name+e.body(s.Body), where, failures.HostRefused.Advice())
	case s.Code == http.StatusUnauthorized:
		e.unauthorized(s, where, name)
	case s.Code == http.StatusForbidden:
		e.forbidden(s, where, name)
	case s.Code >= 300 && s.Code < 400 && s.Target != "":
		e.redirected(s, at, where, name)
	case s.Code == http.StatusNotFound:
		e.misplaced(ctx, name+": no MCP endpoint at this path", at, where, "check the path of the URL (upstream.url) in the server's documentation")
	case s.Code == http.StatusMethodNotAllowed:
		e.misplaced(ctx, name+": this path takes no POST, and has no event stream", at, where, "check the path of the URL (upstream.url) in the server's documentation")
	case s.Code == http.StatusTooManyRequests:
		e.fail(name+": the server limits the rate of requests", where, "wait, and try again")
	case s.Code >= 500:
		e.fail(name+e.body(s.Body), where, failures.Of(s).AdviceOn(s, where))
	default:
		e.misplaced(ctx, name+e.body(s.Body), at, where, failures.HTTPStatus.Advice())
	}
}

// redirected reports a redirect. dragoman follows none, since it would send credentials and messages to a server that no
// setting names.
func (e *exam) redirected(s *upstream.StatusError, at *url.URL, where, name string) {
	to, err := at.Parse(s.Target)
	if err != nil {
		e.fail(name+" to no URL", where, "check the URL (upstream.url) in the server's documentation")
		return
	}
	e.fail(fmt.Sprintf("redirects (%d) to %s, which dragoman does not follow", s.Code, config.SafeURL(to.String())), where, afterRedirect(s.Code, at, to, e.lent()))
}

// body returns the beginning of a refusal's body, to be appended to a text.
func (e *exam) body(body []byte) string {
	if text := e.first([]byte(failures.PageText(body))); text != "" {
		return ": " + text
	}
	return ""
}

func (e *exam) unauthorized(s *upstream.StatusError, where, name string) {
	do := "dragoman login " + where + ", whose login doctor, probe, footprint and stdio use (and serve with upstream.auth: {type: login}); or --header 'Authorization: Bearer ${TOKEN}' (upstream.headers)"
	if from := e.lent(); from != "" {
		do = "the server refuses the credential of " + from + ": is it complete, current, and for this server?"
	}
	e.fail(name, where, do)
	for _, c := range s.Challenges() {
		e.info(failures.Line(c), "WWW-Authenticate", "")
	}
}

func (e *exam) forbidden(s *upstream.StatusError, where, name string) {
	what := name + e.body(s.Body)
	if from := e.lent(); from != "" {
		e.fail(what, where, "the server knows the credential of "+from+", or does not; check what it is allowed to do (its scopes)")
		return
	}
	e.fail(what, where, "the server may want credentials (--header 'Authorization: Bearer ${TOKEN}'), or allow only some host names or addresses: "+
		"try its name instead of its address in the URL (upstream.url), and its list of allowed hosts")
}

// misplaced reports that there is no MCP endpoint at a URL, after a look at the usual paths beside it.
func (e *exam) misplaced(ctx context.Context, what string, at *url.URL, where, do string) {
	tried := []string{}
	given := at.Path
	if path, target, err := unixsocket.Server(e.cfg.Upstream.URL); e.cfg.Upstream.AtSocket() && err == nil {
		at = &url.URL{Scheme: "unix", Path: path + ":", OmitHost: true}
		given, _, _ = strings.Cut(target, "?")
	}
	for _, path := range []string{"", "/mcp", "/sse"} {
		if e.posts && path == "/sse" {
			continue
		}
		for _, full := range candidates(given, path) {
			if full == given || slices.Contains(tried, full) || ctx.Err() != nil {
				continue
			}
			tried = append(tried, full)
			cfg, other := e.cfg, *at
			if other.Path, other.RawPath = full, ""; e.cfg.Upstream.AtSocket() {
				other.Path = at.Path + full
			}
			cfg.Upstream.URL, cfg.Upstream.Transport = other.String(), string(upstream.Auto)
			limited, cancel := context.WithTimeout(ctx, e.CheckTime/5)
			there := e.serves(limited, cfg, strings.HasSuffix(strings.TrimRight(full, "/"), "/sse"))
			cancel()
			if there {
				e.fail(what, where, thereIs+config.SafeURL(other.String())+": use it as the URL (upstream.url)")
				return
			}
		}
	}
	if len(tried) > 0 {
		what += NorAt + strings.Join(tried, ", ")
	}
	e.fail(what, where, do)
}

// candidates returns where an endpoint with this usual path may be: at the root, and beside or below the path of the URL. For "" it
// returns the path of the URL with a slash at its end, or without the one that it has.
func candidates(at, usual string) []string {
	if usual == "" {
		switch bare := strings.TrimRight(at, "/"); bare {
		case "":
			return nil
		case at:
			return []string{at + "/"}
		default:
			return []string{bare}
		}
	}
	all := []string{usual}
	base := strings.TrimRight(at, "/")
	for _, known := range []string{"/mcp", "/sse"} {
		base = strings.TrimSuffix(base, known)
	}
	if base != "" {
		all = append(all, base+usual)
	}
	return all
}
