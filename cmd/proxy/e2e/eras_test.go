package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

const (
	newest          = "2026-07-28" // which has no handshake
	newestHandshake = "2025-11-25"
)

// TestLegacyClientsOfModernServers runs published clients with a handshake with servers without one. Their transcripts
// must equal those with the same server when it speaks their revision itself.
func TestLegacyClientsOfModernServers(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	meet(t, legacyToModern(m))
}

func legacyToModern(m modules) (cells []cell) {
	clients := []*client{
		m.typescript("1.0.4", "2024-11-05", withSSE, stdio),
		m.typescript("1.10.2", "2024-11-05", all...),
		m.typescript("1.12.3", "2025-03-26", all...),
		m.typescript("1.22.0", "2025-06-18", all...),
		m.typescript("1.32.2", "2025-11-25", all...),
		m.typescript2("legacy", "2025-11-25", nil),
		goSDK("2024-11-05"),
		goSDK("2025-03-26"),
		goSDK("2025-06-18"),
		goSDK("2025-11-25"),
	}
	for i, c := range clients {
		for j, s := range []*server{m.typescriptServer2(newest), goServer(newest)} {
			for k, down := range c.transports {
				cells = append(cells, cell{client: c, server: s, down: down, up: s.transports[(i+j+k)%len(s.transports)]})
			}
		}
	}
	return cells
}

// TestModernPeers runs published clients and servers that both have no handshake: the proxy must change nothing.
func TestModernPeers(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	meet(t, modernToModern(m))
}

func modernToModern(m modules) (cells []cell) {
	left := *goSDKAsItIs(func(s scene) bool {
		return s.Step == "unknown method" || notModern[s.Step] == "" && notGoModern[s.Step] == ""
	})
	left.revision, left.transports = newest, []transport{streamable, stdio}
	clients := []*client{m.typescript2(pinned(newest), newest, nil), m.typescript2("auto", newest, nil), &left}
	servers := []*server{m.typescriptServer2(newest), goServer(newest), m.typescriptServer2OfBothEras(), goServerOfBothEras(true)}
	for i, c := range clients {
		for j, s := range servers {
			s := *s
			s.revision = newest
			for k, down := range c.transports {
				cells = append(cells, cell{client: c, server: &s, down: down, up: s.transports[(i+j+k)%len(s.transports)]})
				if j < 2 { // both ways
					cells = append(cells, cell{client: c, server: &s, down: down, up: s.transports[(i+j+k+1)%len(s.transports)]})
				}
			}
		}
	}
	return cells
}

// TestServersOfBothEras runs clients with a handshake with servers of both eras: each client must be served in its own.
func TestServersOfBothEras(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	var cells []cell
	for i, c := range []*client{m.typescript("1.12.3", "2025-03-26", all...), goSDK("2025-06-18"), m.typescript("1.32.2", "2025-11-25", all...)} {
		for j, s := range []*server{m.typescriptServer2OfBothEras(), goServerOfBothEras(false)} {
			cells = append(cells, cell{client: c, server: s, down: inTurn(c.transports, i+j), up: s.transports[i%len(s.transports)]})
		}
	}
	stateless := goServerOfBothEras(true)
	for _, down := range all {
		cells = append(cells, cell{client: goSDK("2025-11-25", except(withoutSession)), server: stateless, down: down, up: streamable})
	}
	meet(t, cells)
}

// withoutSession are the steps that would wait in vain if a server has the messages of a handshake, but no
// session.
var withoutSession = map[string]string{
	"resource updated": "the subscription is forgotten",
	"log message":      "the level is forgotten",
}

// withSession changes the transcript of a client in a session with a server into the expected one if the server has no
// sessions.
func (c cell) withSession(steps transcript) {
	for i := range steps {
		e := &steps[i]
		switch e.Step {
		case "read nothing": // older revisions have another error code for it
			e.Error.(map[string]any)["code"] = json.Number("-32002")
		default:
			c.cannotAsk(e)
		}
	}
	withoutHints(steps) // the Go SDK sends them to all its clients
}

// cancelled returns how many cancellations the server has received.
func (c cell) cancelled(steps transcript) {
	heard := "1"
	if c.up == streamable {
		heard = "0"
	}
	content := at(steps.step("cancellations seen").Result, "content").([]any)
	content[0].(map[string]any)["text"] = heard
}

// withoutHints removes the cache hints of results.
func withoutHints(steps transcript) {
	for _, e := range steps {
		for _, hint := range []string{"ttlMs", "cacheScope"} {
			remove(e.Result, hint)
			remove(e.Result, "*."+hint)
		}
	}
}

// cannotAsk is the expected result of a step in which the server cannot ask the client. In a session the server knows
// that; without one it either refuses the call, or asks and gets no answer.
func (c cell) cannotAsk(e *entry) {
	said := fmt.Sprint(at(e.Error, "message"))
	blocks, _ := at(e.Result, "content").([]any)
	if len(blocks) == 1 && at(e.Result, "isError") == true {
		said = fmt.Sprint(at(blocks[0], "text"))
	}
	if c.server.declares {
		what, ok := strings.CutPrefix(said, "Cannot request input ")
		if !ok {
			return
		}
		what, _, _ = strings.Cut(what, ": ")
		mode := "form"
		if e.Step == "elicitation by url" {
			mode = "url"
		}
		e.Result, e.Error = nil, plain(map[string]any{
			"code": -32603, "message": "Cannot request input " + what + ": the request's client capabilities do not declare the required capability",
			"data": map[string]any{"requiredCapabilities": map[string]any{"elicitation": map[string]any{mode: map[string]any{}}}},
		})
		return
	}
	if strings.HasPrefix(said, "client does not support") {
		remove(e.Result, "isError")
		block := map[string]any{"type": "text", "text": `"cancel"`}
		if c.client.revision >= "2025-06-18" {
			block["_meta"] = map[string]any{"example.com/n": 1}
		}
		e.Result.(map[string]any)["content"] = plain([]any{block})
	}
}
