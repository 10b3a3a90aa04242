package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestErrorsForClients(t *testing.T) {
	latest, oldest := translate.Latest(), translate.Oldest()
	for _, c := range []struct {
		err          error
		code, status int
		text         string
	}{
		{&wire.EnvelopeError{Code: -32700, Why: "Parse error: x"}, -32700, 400, "Parse error: x"},
		{requests.ErrTooMany, -32603, 503, "too many open requests"},
		{requests.ErrDuplicate, -32600, 400, "Request id is already in use"},
		{&translate.Error{From: latest, To: oldest, Method: wire.ResourcesRead, Path: "result.contents[0]", Cause: errors.New("x")},
			-32603, 200, "translation " + latest.Name + "->" + oldest.Name + " failed for resources/read: result.contents[0]: x"},
		{&upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: syscall.ECONNREFUSED}, -32603, 502, "upstream request failed: " + syscall.ECONNREFUSED.Error()},
		{&upstream.Error{Op: "read", Addr: "127.0.0.1:1", Err: io.ErrUnexpectedEOF}, -32603, 502, "upstream request failed: the connection ended before the answer was complete; the server may have done what was asked"},
		{&upstream.Error{Op: "tls", Addr: "127.0.0.1:1", Err: io.ErrUnexpectedEOF}, -32603, 502, "upstream request failed: unexpected EOF"},
		{&upstream.Error{Op: "connect", Addr: "h:1", Err: &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}}, -32603, 502, "upstream request failed: server name not found"},
		{&upstream.Error{Op: "connect", Addr: "h:1", Err: &net.DNSError{Err: "no answer", Name: "h", Server: "10.0.0.1:53"}}, -32603, 502, "upstream request failed: server name cannot be looked up now"},
		{&upstream.Error{Op: "read", Addr: "h:1", Err: &dial.DeadError{After: 25 * time.Second}}, -32603, 502, "upstream request failed: the connection was dead (no acknowledgement for 25 s); the server may have done what was asked"},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), -32603, 504, "upstream timed out"},
		{&upstream.ContentTypeError{Type: "text/html"}, -32603, 502, `upstream request failed: response of type "text/html", expected application/json or text/event-stream`},
		{&upstream.ExitError{Command: "c", Status: "exit status 1"}, -32603, 502, `upstream process ended: upstream "c" ended (exit status 1)`},
		{plainRefusal("text/plain; charset=utf-8", "no \x1b[31msuch\r\n session\xff "), -32603, 400, "upstream answered 400 Bad Request: no such session"},
		{plainRefusal("text/plain", strings.Repeat("é", 1000)), -32603, 400, "upstream answered 400 Bad Request: " + strings.Repeat("é", 150) + "…"},
		{plainRefusal("text/plain", " \n"), -32603, 400, "upstream answered 400 Bad Request"},
		{plainRefusal("text/html", "<h1>no</h1>"), -32603, 400, "upstream answered 400 Bad Request"},
		{&upstream.StatusError{Code: 524}, -32603, 524, "upstream answered 524"},
		{plainRefusal("", "no"), -32603, 400, "upstream answered 400 Bad Request"},
		{plainRefusal("text/plain", `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"m"}}`), -32001, 400, "m"},
		{&upstream.TransportError{Post: plainRefusal("", ""), Get: plainRefusal("", "")}, -32603, 400, "upstream answered 400 Bad Request"},
		{&upstream.TransportError{Post: plainRefusal("text/plain", "no"), Get: &upstream.Error{Op: "read", Addr: "127.0.0.1:1", Err: errors.New("no further data within 3s")}}, -32603, 400,
			"upstream answered 400 Bad Request: no; and its stream (GET) is not one of HTTP+SSE: no further data within 3s"},
		{io.EOF, -32603, 502, "upstream closed the stream without answering"},
		{ErrShutdown, -32603, 503, "dragoman is shutting down"},
		{downstream.ErrStopped, -32603, 503, "dragoman is shutting down"},
		{fmt.Errorf("around: %w", mcp.Fail(mcp.BatchEmpty, "")), -32600, 400, "Empty batch"},
	} {
		f := FailureOf(c.err)
		if f.Code != c.code || f.Status != c.status || f.Text != c.text {
			t.Errorf("%v: %d %d %q", c.err, f.Code, f.Status, f.Text)
		}
		if !json.Valid(f.Body()) {
			t.Errorf("%s", f.Body())
		}
	}
}

func plainRefusal(contentType, body string) error {
	return &upstream.StatusError{Code: 400, Header: []mcp.Header{{Name: "Content-Type", Value: contentType}}, Body: []byte(body)}
}

func TestFailureSaysEverythingOnce(t *testing.T) {
	if got := FailureOf(mcp.Fail(mcp.UpstreamSilent, "")).Error(); got != mcp.UpstreamSilent.Text() {
		t.Errorf("got %q", got)
	}
}
