package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
	"github.com/dragoman-proxy/dragoman/translate"
)

// maxConns is the limit of connections, more than any load opens.
const maxConns = 1024

// roles returns the servers and proxies that this command can run as, by name.
func roles() map[string]func(context.Context, net.Listener, string) error {
	return map[string]func(context.Context, net.Listener, string) error{
		"server": serveMCP, "modern": serveModern, "fasthttp": proxies.ServeBare, "httputil": serveStandard, "collector": serveCollector, "balancer": serveBalancer,
	}
}

func roleNames() string { return "server, modern, fasthttp, httputil, collector, balancer" }

func serve(ctx context.Context, role, upstream string) error {
	f := roles()[role]
	if f == nil {
		return fmt.Errorf("-serve: %q is none of %s", role, roleNames())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	process.Announce("http://" + ln.Addr().String() + "/mcp")
	return f(ctx, ln, upstream)
}

// serverRevision returns the revision of the server: another one than that of the clients, and not the
// latest, which few servers speak.
func serverRevision() *translate.Revision { return translate.Handshake()[1] }

// serverMessages returns the messages of the corpus in the server's revision.
func serverMessages() ([]corpus.Message, error) {
	c, err := corpus.New(1 << 20)
	if err != nil {
		return nil, err
	}
	return c.In(serverRevision()), nil
}

// serveMCP serves MCP with prepared answers.
func serveMCP(ctx context.Context, ln net.Listener, _ string) error {
	work, err := works()
	if err != nil {
		return err
	}
	hello := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"compare","version":"1"}}}`, serverRevision().Name)
	return serveAnswers(ctx, ln, work, func(c *fasthttp.RequestCtx, body []byte) {
		if bytes.Contains(body, []byte(`"initialize"`)) {
			c.Response.Header.Set("Mcp-Session-Id", "5f2c7a90-3d1e-4b7a-9b60-0c9f1e2d3a4b")
			// A client that opens several sessions may use another id for each initialize.
			answerTo(c, body, hello)
			return
		}
		c.SetStatusCode(fasthttp.StatusAccepted)
	})
}

// serveModern serves the same without sessions, in the newest revision.
func serveModern(ctx context.Context, ln net.Listener, _ string) error {
	work, err := works()
	if err != nil {
		return err
	}
	for i := range work {
		if work[i].answer, err = sjson.SetBytes(work[i].answer, "result.resultType", "complete"); err != nil {
			return err
		}
	}
	name := translate.Modern()
	who := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"compare","version":"1"}}}}`, name)
	refusal := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":[%q],"requested":"?"}}}`, name)
	return serveAnswers(ctx, ln, work, func(c *fasthttp.RequestCtx, body []byte) {
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			answerTo(c, body, who)
			return
		}
		c.SetStatusCode(fasthttp.StatusBadRequest)
		answerTo(c, body, refusal)
	})
}

// counted is the path at which a server returns how many messages it has got.
const counted = "/counted"

// serveAnswers answers the calls of work, and calls otherwise for all other messages.
func serveAnswers(ctx context.Context, ln net.Listener, work []work, otherwise func(c *fasthttp.RequestCtx, body []byte)) error {
	var posts atomic.Int64
	return proxies.ServeHTTP(ctx, ln, func(c *fasthttp.RequestCtx) {
		if !c.IsPost() {
			if string(c.Path()) == counted {
				c.Response.SetBodyString(strconv.FormatInt(posts.Load(), 10))
				return
			}
			c.SetStatusCode(fasthttp.StatusMethodNotAllowed)
			return
		}
		posts.Add(1)
		body := c.PostBody()
		for i := range work {
			if !bytes.Contains(body, work[i].sign) {
				continue
			}
			if work[i].notices != nil {
				answerAfter(c, work[i].notices, work[i].answer)
				return
			}
			if _, renamed := idAfter(body, work[i].answer); renamed {
				answerTo(c, body, work[i].answer)
			} else {
				answer(c, work[i].answer)
			}
			return
		}
		otherwise(c, body)
	})
}

// idAfter returns the id of a request, and whether it differs from that of answer.
func idAfter(request, answer []byte) (id string, renamed bool) {
	id = gjson.GetBytes(request, "id").Raw
	return id, id != gjson.GetBytes(answer, "id").Raw
}

// answerTo answers a request with body, in which it puts the request's id.
func answerTo(c *fasthttp.RequestCtx, request, body []byte) {
	id, _ := idAfter(request, body)
	was := gjson.GetBytes(body, "id")
	answer(c, slices.Concat(body[:was.Index], []byte(orNull(id)), body[was.Index+len(was.Raw):]))
}

func orNull(id string) string {
	if id == "" {
		return "null"
	}
	return id
}

func answer(c *fasthttp.RequestCtx, body []byte) {
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(body)
}

// answerAfter answers with an event stream, and writes each event when it is there, as servers do whose tools report
// what they are doing.
func answerAfter(c *fasthttp.RequestCtx, notices [][]byte, answer []byte) {
	c.SetContentType("text/event-stream")
	c.SetBodyStreamWriter(func(w *bufio.Writer) {
		for _, message := range slices.Concat(notices, [][]byte{answer}) {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", message)
			if w.Flush() != nil {
				return // the client has left
			}
		}
	})
}

// serveStandard is the standard library's proxy, with enough idle connections to reuse all of
// them.
func serveStandard(ctx context.Context, ln net.Listener, upstream string) error {
	to, err := url.Parse(strings.TrimSuffix(upstream, "/mcp"))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: maxConns, DisableCompression: true},
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this, an answer that comes before the transport has read the end of the
		// request closes the request's body, and with it the connection to the server.
		http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
