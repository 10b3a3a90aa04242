package peers

import (
	"encoding/json"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// begin begins a session. It may have failed already.
func (c *Client) begin() *clientSession {
	c.sessions++
	s := &clientSession{c: c, n: c.sessions, began: make(chan struct{}), open: map[string][]*call{}, answered: map[string]string{}, asked: map[string]*question{}, listens: map[string]*call{}}
	if c.modern {
		s.revision = c.o.Revision
	}
	c.session = s
	k := &call{method: "initialize", params: object{
		"protocolVersion": c.o.Revision, "capabilities": c.capabilities(), "clientInfo": object{"name": c.o.Name, "version": "1"},
	}}
	if c.modern {
		k.method, k.params = "server/discover", object{}
	}
	raw := s.register("", k, "", "")
	s.note(nil, trace.Event{Kind: trace.Begins, Method: k.method, ID: k.id, N: s.n, Text: c.o.Revision, Raw: raw})
	if c.o.Transport == "sse" {
		s.openSSE(func() { s.send(raw, k) })
	} else {
		s.send(raw, k)
	}
	return s
}

// hello takes the answer to initialize or server/discover.
func (s *clientSession) hello(k *call, x *exchange, m *message) {
	if s.over {
		return
	}
	refuse := func(why string) {
		s.note(x, trace.Event{Kind: trace.Refused, Method: k.method, ID: k.id, Failed: why})
		s.lose("")
	}
	if m.Error != nil {
		s.note(x, trace.Event{Kind: trace.Answered, Method: k.method, ID: k.id, Failed: m.Error.String(), Raw: m.raw})
		s.lose("")
		return
	}
	var r struct {
		ProtocolVersion   string
		SupportedVersions []string
		Capabilities      map[string]json.RawMessage
		ServerInfo        *struct{ Name string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || r.Capabilities == nil || s.c.modern != (r.SupportedVersions != nil) || !s.c.modern && (r.ServerInfo == nil || r.ProtocolVersion == "") {
		s.strange(x, "the answer to "+k.method+" lacks what it must have", m.raw)
	}
	ready := func() {
		s.ok, s.tasks = true, tasksIn(r.Capabilities)
		s.note(x, trace.Event{Kind: trace.Began, Method: k.method, ID: k.id, N: s.n, Text: s.revision, Raw: m.raw})
		close(s.began)
		switch {
		case s.c.o.Transport == "http" && s.c.o.Lacks("stream"):
		case s.c.modern:
			s.listenTo("", "")
		case s.c.o.Transport == "http":
			s.stand("", time.Second)
		case s.c.o.Transport == "stdio":
			s.note(nil, trace.Event{Kind: trace.Opened})
		}
	}
	if s.c.modern {
		ready()
		return
	}
	if s.revision = r.ProtocolVersion; x != nil {
		s.id = x.session
	}
	raw := writeRequest(nil, "notifications/initialized", nil)
	if x = s.send(raw); x == nil {
		ready()
		return
	}
	// What comes after has to come after it at the server too, so its acceptance is awaited.
	x.told = func(why string) {
		if s.over {
			return
		}
		if why != "" {
			refuse(why)
			return
		}
		ready()
	}
}
