package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// ownServer is the server of one session. It knows its client by name, notes messages of other
// clients, and puts the name into each of its messages.
type ownServer struct {
	*fakeServer
	mu    sync.Mutex
	owner string
	mixed []string
}

func newOwnServer(version string, piped bool) *ownServer {
	s := &ownServer{}
	s.fakeServer = newFake(replies(func(m string) ([]string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		id := gjson.Get(m, "id").Raw
		switch method := gjson.Get(m, "method").String(); {
		case method == "initialize":
			s.owner = gjson.Get(m, "params.clientInfo.name").String()
			return one(result(id, fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`, version)))
		case s.owner == "":
			s.mixed = append(s.mixed, "before initialize: "+m)
		case gjson.Get(m, "error").Exists() && method == "": // the proxy refuses a question for the client
		case !strings.Contains(m, s.owner):
			s.mixed = append(s.mixed, s.owner+"'s server got "+m)
		case method == "tools/call":
			return one(
				fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"systemPrompt":%q,"messages":[],"maxTokens":5}}`, s.owner),
				fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, s.owner),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, s.owner))
		case id != "" && method != "":
			return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"who":%q}}`, id, s.owner))
		}
		return nil, nil
	}))
	s.piped = piped
	return s
}

// FuzzSessions: two clients have sessions of one proxy with equal ids. Whatever they send in turn,
// no client gets a message for the other, no server gets a message of the other client, nothing
// panics, and both are served to the end. The first byte of a program selects the revisions and
// whether the servers are on pipes; each other byte is a step of one client.
func FuzzSessions(f *testing.F) {
	for _, program := range []string{
		"\x00\x00\x80", "\x05\x01\x81\x01\x81", "\x1a\x01\x82\x02\x83\x03\x84\x04\x85\x05\x86\x06\x87", "\x10\x02\x82\x03\x83",
		"\x13\x04\x00\x84\x80\x04\x01", "\x0c\x05\x85\x06\x86\x01\x81", "\x1f\x07\x87\x08\x88\x01\x81", "\x04\x08\x88\x01\x02\x03\x81\x82\x83",
	} {
		f.Add([]byte(program))
	}
	revisions := mcp.HandshakeNames()
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		vu, piped := revisions[program[0]/4%4], program[0]/16%2 == 1
		var servers []*ownServer
		origin := origin.Opened(piped, func(context.Context) (upstream.Conn, error) {
			s := newOwnServer(vu, piped)
			servers = append(servers, s)
			return s.conn(), nil
		})
		srv := quietWith(t, origin)
		defer srv.Close()
		parties := [2]*fuzzParty{{srv: srv, name: "alice", other: "bob"}, {srv: srv, name: "bob", other: "alice"}}
		for i, p := range parties {
			p.version = revisions[(int(program[0])+i)%4]
			p.initialize()
		}
		for _, step := range program[1:min(len(program), 40)] {
			p, other := parties[step>>7], parties[1-(step>>7)]
			p.step(int(step&0x7f), other)
		}
		for _, p := range parties {
			p.step(0, p)
		}
		for _, s := range servers {
			s.mu.Lock()
			for _, what := range s.mixed {
				t.Error(what)
			}
			s.mu.Unlock()
		}
		srv.noPanic()
	})
}

// fuzzParty is one of the two clients.
type fuzzParty struct {
	srv         testServer
	name, other string
	version     string
	session     string
}

func (p *fuzzParty) initialize() {
	hello := strings.Replace(initialize(p.version, `{"sampling":{}}`), `"name":"c"`, fmt.Sprintf(`"name":%q`, p.name), 1)
	r := p.srv.post("", hello)
	p.session = r.header["Mcp-Session-Id"]
	if r.status != 200 || p.session == "" {
		p.srv.t.Fatalf("%s cannot initialize: %+v", p.name, r)
	}
}

// mine expects a status, no message for the other client, and, if there is a body, the client's own
// name in it.
func (p *fuzzParty) mine(r reply, status int) {
	p.srv.t.Helper()
	if r.status != status {
		p.srv.t.Errorf("%s: %+v, want %d", p.name, r, status)
	}
	for _, m := range append(r.events, r.body) {
		switch {
		case m == "":
		case !json.Valid([]byte(m)):
			p.srv.t.Errorf("%s got %q", p.name, m)
		case strings.Contains(m, p.other):
			p.srv.t.Errorf("%s got %s", p.name, m)
		case status == 200 && !strings.Contains(m, p.name) && !gjson.Get(m, "error").Exists():
			p.srv.t.Errorf("%s got a message of no call: %s", p.name, m)
		}
	}
}

func (p *fuzzParty) step(what int, other *fuzzParty) {
	p.srv.t.Helper()
	with := func(format string) string { return strings.ReplaceAll(format, "WHO", p.name) }
	switch what % 9 {
	case 0: // a call
		r := p.srv.post(p.session, with(`{"jsonrpc":"2.0","id":1,"method":"test/who","params":{"from":"WHO"}}`))
		p.mine(r, 200)
		if gjson.Get(r.body, "result.who").String() != p.name {
			p.srv.t.Errorf("%s is not served: %+v", p.name, r)
		}
	case 1: // a call in which the server asks a question first
		p.mine(p.srv.post(p.session, with(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"WHO"}}`)), 200)
	case 2: // the answer to that question, or to none
		p.mine(p.srv.post(p.session, with(`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"WHO","content":{"type":"text","text":"WHO"}}}`)), 202)
	case 3: // the remaining messages on the standing stream
		ctx, stop := context.WithCancel(context.Background())
		req, resp := p.srv.begin(ctx, "GET", p.session, "")
		stop()
		p.mine(p.srv.read(req, resp), 200)
	case 4: // the end of the session, and a new one
		p.mine(p.srv.exchange(context.Background(), "DELETE", p.session, ""), 200)
		if r := p.srv.post(p.session, pingOne); r.status != 404 {
			p.srv.t.Errorf("%s goes on after the end: %+v", p.name, r)
		}
		p.initialize()
	case 5: // several messages at once
		r := p.srv.post(p.session, with(`[{"jsonrpc":"2.0","id":1,"method":"test/who","params":{"from":"WHO"}},{"jsonrpc":"2.0","id":"1","method":"test/who","params":{"from":"WHO"}}]`))
		if takesArrays := r.status == 200; takesArrays {
			p.mine(r, 200)
		} else {
			p.mine(r, 400)
		}
	case 6: // a cancellation of an unknown request
		p.mine(p.srv.post(p.session, with(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"WHO"}}`)), 202)
	case 7: // invalid data
		p.mine(p.srv.post(p.session, `{"jsonrpc":"2.0","id":1,"method":`), 400)
	case 8: // half of the client's own id, and half of the other's
		n := len(p.session) / 2
		if r := p.srv.post(p.session[:n]+other.session[min(n, len(other.session)):], pingOne); r.status != 404 {
			p.srv.t.Errorf("a made-up session: %+v", r)
		}
	}
}
