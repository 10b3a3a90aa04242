package tests

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// staged is a test with a client and a server whose transports it does not choose.
type staged struct {
	*testing.T
	client, server bool // whether each is on a pipe
}

// legacy is a server with sessions, of the newest handshake revision.
func (c *staged) legacy(capabilities string, rest func(*peertest.Turn)) *peertest.Server {
	s := script(c.T, c.server, func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"s","version":"2"},"instructions":"hi"}}`)
		case u.Method == "server/discover":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
		case rest != nil && u.ID != "" && u.Method != "":
			rest(u)
		}
	})
	s.SessionID = "session-1"
	return s
}

// modern is a server without sessions.
func (c *staged) modern(discovered string, rest func(*peertest.Turn)) *peertest.Server {
	return c.sessionless(func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(404, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found: initialize"}}`)
		case "server/discover":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",`+discovered+`}}`)
		case "tools/list":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}}`)
		default:
			if rest != nil && u.ID != "" && u.Method != "" {
				rest(u)
			}
		}
	})
}

// sessionless is a server that has no standing stream.
func (c *staged) sessionless(do func(*peertest.Turn)) *peertest.Server {
	s := script(c.T, c.server, do)
	s.NoGet = true
	return s
}

// stage starts a proxy and a client in front of a server.
func (c *staged) stage(s *peertest.Server, change ...func(*config.Config)) (*peertest.Client, proxied) {
	c.Helper()
	p := through(c.T, s.At(), change...)
	return p.client(c.T, c.client), p
}

// asCall returns a tools/call of a modern client.
func asCall(id, capabilities, more string) string {
	return modernRequestOf(id, "tools/call", `"name":"t","arguments":{},`+more+meta(capabilities))
}

const complete = `"result":{"content":[],"resultType":"complete",` + identity + `}`
