package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestHeadersThatArePassed come with each kind of response: the answer to a call, a notification and a GET, and a refusal.
func TestHeadersThatArePassed(t *testing.T) {
	long := strings.Repeat("x", maxPassed)
	status := 200
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		h := u.Web.Header()
		h.Set("DPoP-Nonce", fmt.Sprint("n", status))
		h["Link"] = []string{"<a>", "<b>"}
		h.Set("Sunset", long)
		h.Set("Deprecation", long+"x")
		h.Set("X-Other", "no")
		h.Set("RateLimit", "")
		switch {
		case status >= 400:
			u.Refuse(status)
		case u.Text == http.MethodGet:
			u.Say(`{"jsonrpc":"2.0","method":"x"}`)
		case u.ID != "":
			u.Answer(200, answer)
		}
	})
	s.Every = true
	session := newHTTP(t, HTTPConfig{URL: s.At().URL, Pass: []string{"dpop-nonce", "Link", "Sunset", "Deprecation", "RateLimit", "traceresponse"}}).Session("", "")
	want := func(what string, got []mcp.Header) {
		t.Helper()
		if text, want := fmt.Sprint(got), fmt.Sprintf("[{dpop-nonce n%d} {Link <a>} {Link <b>} {Sunset %s}]", status, long); text != want {
			t.Errorf("%s: %.300s, want %.300s", what, text, want)
		}
	}
	for range 3 { // the second head is that of the first, and not parsed
		var told []mcp.Header
		st, err := session.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Told: &told})
		if err != nil {
			t.Fatal(err)
		}
		First(st)
		st.Close()
		want("a call", told)
	}
	var told []mcp.Header
	session.Send(t.Context(), &Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"x"}`), Told: &told})
	want("a notification", told)
	told = nil
	st, err := session.Listen(t.Context(), ListenOptions{Told: &told})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	want("a GET", told)
	for _, status = range []int{401, 403, 429, 500} {
		_, err := said(t.Context(), session)
		refusal, ok := errors.AsType[*StatusError](err)
		if !ok {
			t.Fatal(err)
		}
		want("a refusal", refusal.Passed)
	}
}

func TestPassedHeadersAreBounded(t *testing.T) {
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		for range 20 {
			u.Web.Header().Add("Link", strings.Repeat("x", 1000))
		}
		u.Answer(200, answer)
	})
	session := newHTTP(t, HTTPConfig{URL: s.At().URL, Pass: []string{"Link"}}).Session("", "")
	var told []mcp.Header
	st, err := session.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Told: &told})
	if err != nil {
		t.Fatal(err)
	}
	First(st)
	st.Close()
	if len(told) != 8 {
		t.Errorf("%d headers", len(told))
	}
}
