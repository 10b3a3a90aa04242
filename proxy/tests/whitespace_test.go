package tests

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// The tests in this file have a server and a client that write a line break after each JSON value,
// as encoding/json's Encoder does. On every transport, white space between tokens becomes a space
// on a line, and none remains around a message.

const (
	brokenUp = "\r\n\t{\"jsonrpc\":\"2.0\",\n \"id\":7,\r\n\"result\":{}}\n"
	onALine  = `{"jsonrpc":"2.0",  "id":7,  "result":{}}`
	asItIs   = "{\"jsonrpc\":\"2.0\",\n \"id\":7,\r\n\"result\":{}}"
)

func newlineServer(t *testing.T) *peertest.Server {
	return script(t, false, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(200, initialized(u.ID)+"\n")
		case "ping":
			u.Answer(200, brokenUp)
		}
	})
}

// initialized is a response to initialize.
func initialized(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
}

const pingSeven = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

func TestServersLineBreaksOnAPipe(t *testing.T) {
	c := through(t, newlineServer(t).At()).client(t, true)
	if got := c.Initialize("2025-06-18", "{}"); strings.HasSuffix(got, " ") {
		t.Errorf("initialize is answered %q", got)
	}
	if got := c.Say(pingSeven).Next(); got != onALine {
		t.Errorf("got %q, want %q", got, onALine)
	}
}

func TestServersLineBreaksOverHTTP(t *testing.T) {
	c := through(t, newlineServer(t).At()).client(t, false)
	c.Initialize("2025-06-18", "{}")
	if got := c.Say(pingSeven).Next(); got != asItIs {
		t.Errorf("got %q, want %q", got, asItIs)
	}
}

func TestServersLineBreaksOverSSE(t *testing.T) {
	c := overSSE(t, through(t, newlineServer(t).At()))
	c.Post(initialize("2024-11-05", "{}") + "\n")
	if got := c.Event(); strings.Count(got, "data:") != 1 || !strings.HasSuffix(got, "}\n") {
		t.Errorf("initialize is answered %q", got)
	}
	c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	c.Post(pingSeven + "\n")
	if got, want := c.Event(), "event: message\ndata: "+onALine+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClientsLineBreaks(t *testing.T) {
	const sent = "\n {\"jsonrpc\":\"2.0\",\n\"id\":7,\"method\":\"ping\"}\r\n"
	for _, piped := range []bool{false, true} {
		t.Run(map[bool]string{false: "to HTTP", true: "to stdio"}[piped], func(t *testing.T) {
			s := script(t, piped, func(u *peertest.Turn) {
				switch u.Method {
				case "initialize":
					u.Answer(200, initialized(u.ID))
				case "ping":
					u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{}}`)
				}
			})
			c := through(t, s.At()).client(t, false)
			c.Initialize("2025-06-18", "{}")
			c.Say(sent).Next()
			got := s.Gets(1, "ping").Text
			if piped && strings.TrimSpace(got) != got || !piped && got != strings.TrimSpace(sent) {
				t.Errorf("the server gets %q", got)
			}
		})
	}
}
