package proxy

import (
	"strings"
	"testing"
)

// The tests in this file have a server and a client that write a line break after each JSON value,
// as encoding/json's Encoder does. On every transport, white space between tokens becomes a space
// on a line, and none remains around a message.

const (
	brokenUp = "\r\n\t{\"jsonrpc\":\"2.0\",\n \"id\":7,\r\n\"result\":{}}\n"
	onALine  = `{"jsonrpc":"2.0",  "id":7,  "result":{}}`
	asItIs   = "{\"jsonrpc\":\"2.0\",\n \"id\":7,\r\n\"result\":{}}"
)

func newlineServer(t *testing.T) *scripted {
	return script(t, false, func(u *turn) {
		switch u.method {
		case "initialize":
			u.answer(200, initialized(u.id)+"\n")
		case "ping":
			u.answer(200, brokenUp)
		}
	})
}

// initialized is a response to initialize.
func initialized(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
}

const pingSeven = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

func TestServersLineBreaksOnAPipe(t *testing.T) {
	c := through(t, newlineServer(t).at()).client(t, true)
	if got := c.initialize("2025-06-18", "{}"); strings.HasSuffix(got, " ") {
		t.Errorf("initialize is answered %q", got)
	}
	if got := c.say(pingSeven).next(); got != onALine {
		t.Errorf("got %q, want %q", got, onALine)
	}
}

func TestServersLineBreaksOverHTTP(t *testing.T) {
	c := through(t, newlineServer(t).at()).client(t, false)
	c.initialize("2025-06-18", "{}")
	if got := c.say(pingSeven).next(); got != asItIs {
		t.Errorf("got %q, want %q", got, asItIs)
	}
}

func TestServersLineBreaksOverSSE(t *testing.T) {
	c := overSSE(t, through(t, newlineServer(t).at()))
	c.post(initialize("2024-11-05", "{}") + "\n")
	if got := c.event(); strings.Count(got, "data:") != 1 || !strings.HasSuffix(got, "}\n") {
		t.Errorf("initialize is answered %q", got)
	}
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	c.post(pingSeven + "\n")
	if got, want := c.event(), "event: message\ndata: "+onALine+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClientsLineBreaks(t *testing.T) {
	const sent = "\n {\"jsonrpc\":\"2.0\",\n\"id\":7,\"method\":\"ping\"}\r\n"
	for _, piped := range []bool{false, true} {
		t.Run(map[bool]string{false: "to HTTP", true: "to stdio"}[piped], func(t *testing.T) {
			s := script(t, piped, func(u *turn) {
				switch u.method {
				case "initialize":
					u.answer(200, initialized(u.id))
				case "ping":
					u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":{}}`)
				}
			})
			c := through(t, s.at()).client(t, false)
			c.initialize("2025-06-18", "{}")
			c.say(sent).next()
			got := s.gets(1, "ping").text
			if piped && strings.TrimSpace(got) != got || !piped && got != strings.TrimSpace(sent) {
				t.Errorf("the server gets %q", got)
			}
		})
	}
}
