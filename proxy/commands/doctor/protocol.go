package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// place names the server in lines.
func (e *exam) place() string {
	if hasURL(e) {
		return config.SafeURL(e.cfg.Upstream.URL)
	}
	return strings.Join(config.SafeCommand(e.cfg.Upstream.WrittenCommand()), " ")
}

// protocol judges the answer to initialize, and asks the server twice for the same, in one session.
func protocol(ctx context.Context, e *exam) {
	m := gjson.Parse(string(e.answer))
	switch {
	case m.Get("error").Exists():
		e.withoutHandshake(ctx, m)
	case e.sound(m):
		e.begin(ctx, m.Get("result"))
	}
	if e.session == nil {
		return
	}
	e.introduced()
	e.twice(ctx)
}

// sound reports whether the response to initialize is one, and writes a line for each mistake in it.
func (e *exam) sound(m gjson.Result) bool {
	quote := ": " + e.first([]byte(m.Raw))
	r := m.Get("result")
	version := r.Get("protocolVersion")
	switch known := translate.Lookup(version.Str); {
	case !r.IsObject():
		e.fail("the answer to initialize has no result"+quote, e.place(), "this is a mistake of the server")
		return false
	case version.Type != gjson.String:
		e.fail("the answer to initialize has no protocolVersion"+quote, e.place(), "this is a mistake of the server")
		return false
	case known == nil:
		e.fail(fmt.Sprintf("the server answers with revision %q, which dragoman does not speak", e.quote(version.Str)), e.place(),
			"update dragoman or the server; dragoman speaks "+strings.Join(translate.Names(), ", "))
		return false
	case known.Modern:
		e.fail(fmt.Sprintf("the server answers initialize with revision %s, which has no initialize", known.Name), e.place(), "this is a mistake of the server; upstream.version: "+translate.Latest().Name)
		return false
	}
	if c := r.Get("capabilities"); !c.IsObject() {
		e.fail("the answer to initialize has no capabilities"+quote, e.place(), "this is a mistake of the server")
		return false
	}
	if !r.Get("serverInfo").IsObject() {
		e.warn("the answer to initialize has no serverInfo"+quote, e.place(), "many clients refuse such a server: this is a mistake of the server")
	}
	return true
}

// begin completes the handshake.
func (e *exam) begin(ctx context.Context, result gjson.Result) {
	s := &session{connection: e.conn, revision: translate.Lookup(result.Get("protocolVersion").Str), result: result, took: e.took}
	s.settle()
	if err := s.tell(ctx); err != nil {
		e.fail("notifications/initialized is refused: "+e.quote(err.Error()), e.place(), "this is a mistake of the server")
		return
	}
	e.session = s
}

// settle notes what later requests are sent with.
func (s *session) settle() {
	if s.web != nil {
		s.web.SetSession(s.answer.SessionID(), s.revision.Name)
	}
}

// tell sends notifications/initialized.
func (s *session) tell(ctx context.Context) error {
	_, err := s.conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, "")})
	return err
}

// withoutHandshake asks a server that refuses initialize by server/discover. refusal is its answer to initialize.
func (e *exam) withoutHandshake(ctx context.Context, refusal gjson.Result) {
	refused := "initialize is refused: " + e.first([]byte(refusal.Get("error").Raw))
	c, err := e.open(ctx)
	if err != nil {
		e.fail(refused+"; server/discover cannot be sent: "+e.quote(err.Error()), e.place(), "the error says why; upstream.version sets the revision that initialize proposes")
		return
	}
	s := &session{connection: c, revision: translate.Lookup(translate.Modern())}
	begun := time.Now()
	answer, err := s.request(ctx, "2", "server/discover", "{}")
	s.took = time.Since(begun)
	if status, is := errors.AsType[*upstream.StatusError](err); is && gjson.ValidBytes(status.Body) {
		answer, err = gjson.ParseBytes(status.Body), nil
	}
	switch r := answer.Get("result"); {
	case err != nil:
		e.fail(refused+"; server/discover fails: "+e.quote(err.Error()), e.place(), "the error says why; upstream.version sets the revision that initialize proposes")
	case !r.IsObject():
		e.fail(refused+"; server/discover too: "+e.first([]byte(answer.Get("error").Raw)), e.place(), "the errors say why; upstream.version sets the revision that initialize proposes")
	case !r.Get("capabilities").IsObject() || !slices.ContainsFunc(r.Get("supportedVersions").Array(), func(v gjson.Result) bool { return v.Str == s.revision.Name }):
		e.fail("the answer to server/discover has no capabilities, or "+s.revision.Name+" is not among its supportedVersions: "+e.first([]byte(answer.Raw)), e.place(), "this is a mistake of the server, or update dragoman")
	default:
		s.result = r
		e.session = s
	}
}

// open opens a connection for requests without a handshake. A process is the one that has refused initialize.
func (e *exam) open(ctx context.Context) (*connection, error) {
	if hasCommand(e) {
		return e.conn, nil
	}
	o, err := e.world.Of(e.cfg, zap.NewNop())
	if err != nil {
		return nil, err
	}
	e.atEnd(o.Close)
	e.sent = &o.Credentials.Sent
	begun, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	c := newConnection(begun, time.Now())
	e.atEnd(c.close)
	return c, nil
}

// introduced says what the server has said of itself.
func (e *exam) introduced() {
	s := e.session
	how := "with a handshake"
	if s.revision.Modern {
		how = "without a handshake"
	}
	when := "answered in " + millis(s.took)
	if hasCommand(e) && !s.revision.Modern {
		when = "answered " + millis(s.took) + " after its start"
	}
	e.ok(fmt.Sprintf("revision %s, %s, %s", s.revision.Name, how, when), e.place())
	about := s.about()
	if name := e.quote(strings.TrimSpace(about.Get("name").String() + " " + about.Get("version").String())); name != "" {
		e.info("the server is "+name, "", "")
	}
	var capabilities []string
	s.result.Get("capabilities").ForEach(func(key, _ gjson.Result) bool {
		capabilities = append(capabilities, e.quote(key.String()))
		return true
	})
	if len(capabilities) == 0 {
		e.warn("the server has no capabilities: neither tools nor prompts nor resources", e.place(), "is it configured? many servers list nothing without a credential")
		return
	}
	e.info("capabilities: "+strings.Join(capabilities, ", "), "", "")
}

// about returns the serverInfo of the server.
func (s *session) about() gjson.Result {
	if s.revision.Modern {
		return s.result.Get("_meta." + strings.ReplaceAll(mcp.MetaServer, ".", `\.`))
	}
	return s.result.Get("serverInfo")
}

// twice makes two calls in the session.
func (e *exam) twice(ctx context.Context) {
	method := "ping"
	switch has := e.session.result.Get("capabilities"); {
	case has.Get("tools").Exists():
		method = "tools/list"
	case has.Get("prompts").Exists():
		method = "prompts/list"
	case has.Get("resources").Exists():
		method = "resources/list"
	case e.session.revision.Modern:
		method = "server/discover"
	}
	for i, which := range []string{"first", "second"} {
		m, err := e.session.ask(ctx, method, "{}")
		reason := ""
		switch {
		case err != nil:
			reason = e.quote(err.Error())
			if status, is := errors.AsType[*upstream.StatusError](err); is {
				reason += e.body(status.Body)
			}
		case m.Get("error").Exists() && i == 0 && strings.HasSuffix(method, "/list"):
			e.info(method+" is answered with an error", e.place(), "")
			return // the check of the lists says more
		case m.Get("error").Exists():
			reason = e.first([]byte(m.Get("error").Raw))
		default:
			continue
		}
		do := "the server's own log says more"
		if e.keepsSession() && (i == 1 || strings.Contains(reason, "404")) {
			do = "is a balancer in between that sends each request to another process? it must send all requests with one Mcp-Session-Id to the same one"
		}
		after := " after the handshake"
		if e.session.revision.Modern {
			after = ""
		}
		e.fail(fmt.Sprintf("the %s call%s (%s) fails: %s", which, after, method, reason), e.place(), do)
		e.session = nil
		return
	}
	switch {
	case e.session.revision.Modern:
		e.ok("two calls are answered; no session is needed", e.place())
	case hasCommand(e):
		e.ok("two calls are answered", e.place())
	case e.keepsSession():
		e.ok("the session is kept over two calls", e.place())
	default:
		e.ok("two calls are answered; the server has no sessions (it sends no Mcp-Session-Id)", e.place())
	}
}

// keepsSession reports whether the server must know the session again that a request belongs to: over Streamable HTTP by
// its id, and over HTTP+SSE by its stream.
func (e *exam) keepsSession() bool {
	web := e.session.web
	return !hasCommand(e) && (web == nil || web.SessionID() != "")
}

// millis returns a duration in milliseconds, as far as they matter.
func millis(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// call calls the tool that the user names, once, through dragoman.
func call(ctx context.Context, e *exam) {
	if !json.Valid([]byte(e.Arguments)) || !gjson.Parse(e.Arguments).IsObject() {
		e.fail("the arguments of --call are not a JSON object", "--call", `write --call TOOL '{"name": "value"}'`)
		return
	}
	s := e.relayed
	if s == nil {
		e.fail("there is no session to call it in", e.Tool, "")
		return
	}
	begun := time.Now()
	m, err := s.ask(ctx, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s}`, wire.AppendQuoted(nil, e.Tool), e.Arguments))
	took := millis(time.Since(begun))
	switch r := m.Get("result"); {
	case err != nil:
		e.fail("the call fails: "+e.quote(err.Error()), e.Tool, "see the server's log")
	case m.Get("error").Exists():
		e.fail("the call is refused: "+e.first([]byte(m.Get("error").Raw)), e.Tool, "the error says why")
	case r.Get("isError").Bool():
		e.warn("the tool answers with an error in "+took+": "+e.first([]byte(r.Get("content").Raw)), e.Tool, "are the arguments right?")
	default:
		e.ok(fmt.Sprintf("answered in %s with %s, %s: %s", took, plural(len(r.Get("content").Array()), "content block"), size(len(r.Raw)), e.first([]byte(r.Get("content").Raw))), e.Tool)
	}
}
