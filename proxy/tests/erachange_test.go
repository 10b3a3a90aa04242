package tests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// replaceable is an address behind which one server can be replaced by another.
type replaceable struct {
	url   string
	now   atomic.Pointer[http.Handler]
	asked atomic.Int64 // the number of requests
	all   []*sdk.Server
}

func newReplaceable(t *testing.T) *replaceable {
	r := new(replaceable)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		(*r.now.Load()).ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	r.url = web.URL
	return r
}

// by starts a published server at the address, of one revision or of all.
func (r *replaceable) by(revision string) {
	s := sdkServer(revision)
	if revision == modernOnly {
		s = modernSDKServer(revision)
	}
	r.all = append(r.all, s)
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: revision == modernOnly})
	r.now.Store(&h)
}

// before returns a proxy in front of the address.
func (r *replaceable) before(t *testing.T) testServer {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.URL = r.url
	o, err := origin.Of(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	leavesNothing(t)
	srv, err := proxy.NewWith(cfg, zap.NewNop(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		for _, s := range r.all {
			for session := range s.Sessions() {
				session.Close()
			}
		}
	})
	return testServer{srv, t, nil}
}

// TestServerIsReplacedUnderASession: the client is told to begin a new session, and gets it in
// whatever era the new server is of.
func TestServerIsReplacedUnderASession(t *testing.T) {
	for _, turn := range [][2]string{{"2025-06-18", modernOnly}, {modernOnly, "2025-06-18"}} {
		for _, vc := range []string{"2025-03-26", "2025-11-25"} {
			for _, method := range []string{"tools/list", "tools/call"} {
				t.Run(fmt.Sprintf("%s to %s, %s, %s", turn[0], turn[1], vc, method), func(t *testing.T) {
					r := newReplaceable(t)
					r.by(turn[0])
					srv := r.before(t)
					call := func(session, id string) reply {
						return srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{"name":"hello","arguments":{}}}`)
					}
					good := func(session, id string) {
						t.Helper()
						if a := call(session, id); a.status != 200 || !gjson.Get(a.body, "result").Exists() {
							t.Errorf("%+v", a)
						}
					}
					session := srv.initialize(vc)
					srv.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					good(session, "5")
					r.by(turn[1])
					for id := range 2 {
						if a := call(session, fmt.Sprint(6+id)); a.status != 404 {
							t.Errorf("the old session: %+v", a)
						}
					}
					for range 2 {
						session = srv.initialize(vc)
						srv.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
						good(session, "8")
					}
				})
			}
		}
	}
}

// TestServerIsReplacedUnderClientsWithoutASession: modern clients do not notice.
func TestServerIsReplacedUnderClientsWithoutASession(t *testing.T) {
	for _, turn := range [][]string{{"2025-06-18", modernOnly, "2025-03-26"}, {modernOnly, "2025-11-25", modernOnly}} {
		for _, can := range []string{`{}`, `{"roots":{}}`} { // a client that can be asked has a parked call
			for _, method := range []string{"tools/list", "tools/call", "server/discover"} {
				t.Run(fmt.Sprintf("%s, %s, %s", turn, can, method), func(t *testing.T) {
					r := newReplaceable(t)
					r.by(turn[0])
					srv := r.before(t)
					id := 0
					for _, revision := range turn {
						r.by(revision)
						for range 2 {
							id++
							params := meta(can)
							if method == "tools/call" {
								params += `,"name":"hello","arguments":{}`
							}
							a := srv.modernly(modernRequestOf(fmt.Sprint(id), method, params))
							if a.status != 200 || gjson.Get(a.body, "result.resultType").String() != "complete" || gjson.Get(a.body, "id").Int() != int64(id) {
								t.Errorf("in front of %s: %+v", revision, a)
							}
						}
					}
				})
			}
		}
	}
}

// TestServerThatBecameAHandshakeServer: if the server turns out to be a handshake server, modern
// requests stop going to it directly, also if another request has just found that out.
func TestServerThatBecameAHandshakeServer(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		return one(rpcError(id, `"code":-32601,"message":"Method not found"`))
	})
	f.asked = true
	srv := front(t, f)
	var m wire.Message
	if err := m.Scan([]byte(modernRequestOf("1", "tools/list", meta(`{}`))), nil); err != nil {
		t.Fatal(err)
	}
	q, err := stateless.Read(&m, "")
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Modern.Pass(&downstream.Request{Ctx: t.Context()}, q, "", nil, new(downstream.Response))
	if err == nil || report.FailureOf(err).Cause != mcp.UpstreamLegacy {
		t.Errorf("%v", err)
	}
	if !srv.Eras.Changed(t.Context(), nil, true, err) {
		t.Errorf("%v is no reason to go another way", err)
	}
}
