package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// tokenHeader carries a token for dragoman itself.
const tokenHeader = "X-Dragoman-Token"

// reportThis is what to do about a mistake of dragoman.
const reportThis = "this is a defect of dragoman: report it with this text and the version"

// through serves on a free loopback port, and compares the lists that a client gets there with those of the server.
func through(ctx context.Context, e *exam) {
	if e.Serve == nil {
		return
	}
	if e.unread {
		e.skip(`"lists" failed`)
		return
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.fail("cannot listen on a free port of this machine: "+cause(err), "127.0.0.1:0", "does the system, or a container's policy, forbid it?")
		return
	}
	token := make([]byte, 16)
	rand.Read(token) // never fails
	cfg := bare(e.cfg, hex.EncodeToString(token))
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(serving, cfg, ln) }()
	e.atEnd(func() {
		stop()
		<-ended
	})
	s, err := e.client(ctx, "http://"+ln.Addr().String()+cfg.Path, cfg.Auth.Tokens[0])
	if err != nil {
		select {
		case err = <-ended:
			ended <- err
			e.fail("dragoman does not start: "+e.quote(fmt.Sprint(err)), "", "the error says why")
		case <-time.After(100 * time.Millisecond): // a listener resets connections before Serve returns
			e.lost(ctx, "the handshake fails: "+e.quote(err.Error()), "dragoman on "+ln.Addr().String())
		}
		return
	}
	e.relayed = s
	found, err := s.lists(ctx)
	if err != nil {
		e.lost(ctx, "the lists cannot be read: "+e.quote(err.Error()), "dragoman on "+ln.Addr().String())
		return
	}
	difference := e.differ(found)
	if difference != "" {
		if again, err := e.session.lists(ctx); err == nil { // they may have changed meanwhile
			e.found = again
			difference = e.differ(found)
		}
	}
	if difference != "" {
		e.fail("the first difference: "+difference, "dragoman on "+ln.Addr().String(), reportThis)
		return
	}
	e.ok(fmt.Sprintf("a client of %s gets the same lists; the handshake takes %s, %s without dragoman", s.revision.Name, millis(s.took), millis(e.session.took)), "")
}

// lost reports what fails through dragoman. If the server does not take a new session without dragoman either, it is to blame.
func (e *exam) lost(ctx context.Context, what, where string) {
	if hasURL(e) {
		c, err := e.connect(ctx, e.cfg)
		if err == nil {
			c.close()
		} else if refusal(err) == nil {
			e.blamed = ExitServer
			e.fail("the server takes no second session: "+e.quote(err.Error()), e.place(), "does it end, or stop to answer, when a first client has left? its own log says more")
			return
		}
	}
	e.fail(what, where, reportThis)
}

// bare returns cfg without all that changes lists on purpose, for a listener that only the owner of token can use.
func bare(cfg config.Config, token string) config.Config {
	defaults := config.Default()
	cfg.Path, cfg.AllowedHosts, cfg.CORS = defaults.Path, nil, config.CORS{}
	cfg.OAuth = config.OAuth{Relay: "none"}
	cfg.Auth = config.Auth{Tokens: []string{token}}
	cfg.TLS, cfg.Admin = config.TLS{}, config.Admin{}
	cfg.Adapters.Sources, cfg.Gates, cfg.Transform, cfg.Footprint = nil, nil, nil, defaults.Footprint
	cfg.Contract.SchemaDialect = "off"
	cfg.Session.KeyFile, cfg.Bridge.Principal = "", defaults.Bridge.Principal
	cfg.Store = defaults.Store
	cfg.Upstream.ShareChild = false
	cfg.Shutdown.Drain = time.Second
	return cfg
}

// client begins a session at a URL, of the same revision as the session with the server.
func (e *exam) client(ctx context.Context, at, token string) (*session, error) {
	d, err := upstream.NewDialer(upstream.HTTPConfig{URL: at, Header: []mcp.Header{{Name: tokenHeader, Value: token}}}, upstream.StreamableHTTP)
	if err != nil {
		return nil, err
	}
	e.atEnd(func() { d.Close() })
	s := &session{revision: e.session.revision}
	if s.revision.Modern {
		s.connection = newConnection(d.HTTP().Session("", s.revision.Name).Begun(), time.Now())
		e.atEnd(s.close)
		answer, err := s.request(ctx, greetingID, "server/discover", "{}")
		s.took, s.result = time.Since(s.opened), answer.Get("result")
		if err == nil && !s.result.IsObject() {
			err = errors.New(answer.Raw)
		}
		return s, err
	}
	opened := time.Now()
	begun, err := d.Connect(ctx, &upstream.Outgoing{Request: true, Body: mcp.Initialize(greetingID, s.revision.Name, declared, us)})
	if err != nil {
		return nil, withBody(err)
	}
	s.connection = newConnection(begun, opened)
	e.atEnd(s.close)
	answer, err := s.await(ctx, s.answer, greetingID)
	if err != nil {
		return nil, err
	}
	s.took, s.result = time.Since(opened), gjson.Parse(string(answer)).Get("result")
	if !s.result.IsObject() {
		return nil, errors.New(string(answer))
	}
	s.settle()
	return s, s.tell(ctx)
}

// withBody returns an error that also tells the message of a refused request's body.
func withBody(err error) error {
	if status, is := errors.AsType[*upstream.StatusError](err); is && len(status.Body) > 0 {
		return fmt.Errorf("%w: %s", err, status.Body)
	}
	return err
}

// differ returns the first difference between the server's lists and those through dragoman, or "".
func (e *exam) differ(through []probe.List) string {
	for _, l := range e.found {
		i := slices.IndexFunc(through, func(other probe.List) bool { return other.Name == l.Name })
		if i < 0 {
			return l.Name + ": the list is missing"
		}
		other := through[i]
		if (other.Refused == "") != (l.Refused == "") {
			return fmt.Sprintf("%s: %s at the server, %s through dragoman", l.Name, answerOf(l), answerOf(other))
		}
		if len(other.Items) != len(l.Items) {
			return fmt.Sprintf("%s: the server has %d, dragoman passes %d on", l.Name, len(l.Items), len(other.Items))
		}
		for n, item := range l.Items {
			if path, a, b := difference(gjson.Parse(item), gjson.Parse(other.Items[n]), ""); path != "" {
				name := e.quote(gjson.Get(item, l.Key).String())
				return fmt.Sprintf("%s, %s, %s: %s at the server, %s through dragoman", l.Name, name, strings.TrimPrefix(path, "."), e.first([]byte(a)), e.first([]byte(b)))
			}
		}
	}
	return ""
}

// answerOf says how the server has answered.
func answerOf(l probe.List) string { return cmp.Or(l.Refused, fmt.Sprintf("%d entries", len(l.Items))) }

// difference returns the path of the first difference between two JSON values, and what is there; "" if there is none.
func difference(a, b gjson.Result, path string) (at, left, right string) {
	if a.Raw == b.Raw {
		return "", "", ""
	}
	if a.IsObject() && b.IsObject() {
		a.ForEach(func(key, value gjson.Result) bool {
			at, left, right = difference(value, member(b, key.Str), path+"."+key.Str)
			return at == ""
		})
		if at != "" {
			return at, left, right
		}
		b.ForEach(func(key, value gjson.Result) bool {
			if !member(a, key.Str).Exists() {
				at, left, right = path+"."+key.Str, "nothing", value.Raw
			}
			return at == ""
		})
		return at, left, right
	}
	if x, y := a.Array(), b.Array(); a.IsArray() && b.IsArray() && len(x) == len(y) {
		for i := range x {
			if at, left, right = difference(x[i], y[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at, left, right
			}
		}
		return "", "", ""
	}
	if !b.Exists() {
		return cmp.Or(path, "."), a.Raw, "nothing"
	}
	return cmp.Or(path, "."), a.Raw, b.Raw
}

// member returns the member of an object with this name, whatever characters the name has.
func member(object gjson.Result, name string) (found gjson.Result) {
	object.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			found = value
			return false
		}
		return true
	})
	return found
}
