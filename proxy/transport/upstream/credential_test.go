package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// tokens is a credential whose tokens a server refuses until they are renewed.
type tokens struct {
	mu      sync.Mutex
	number  int
	refused []string
	none    error // there is no new token
}

func (k *tokens) Header(context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf("Bearer t%d", k.number), nil
}

func (k *tokens) Refused(_ context.Context, value string, refusal *StatusError, tries int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused = append(k.refused, fmt.Sprint(value, " ", refusal.Code))
	if k.none != nil {
		return k.none
	}
	if tries > 0 {
		return errUseless
	}
	if value == fmt.Sprintf("Bearer t%d", k.number) {
		k.number++
	}
	return nil
}

var errUseless = errors.New("a fresh token was refused")

// TestCredential: each request carries the credential in place of the client's Authorization, and a
// request that the server refuses is sent once more if there is a new token.
func TestCredential(t *testing.T) {
	good := "Bearer t1"
	server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case len(u.Header.Values("Authorization")) != 1 || u.Header.Get("Authorization") != good:
			u.Web.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			u.Refuse(http.StatusUnauthorized)
		case u.Text == "GET":
			u.Say(`{"jsonrpc":"2.0","method":"x"}`)
		case u.Text != "notice":
			u.Answer(http.StatusOK, answer)
		}
	})
	server.Every = true
	at, heard := server.At().URL, 0
	// got returns the requests of one test.
	got := func() []peertest.Message {
		all := server.Heard()
		defer func() { heard = len(all) }()
		return all[heard:]
	}
	for name, send := range map[string]func(*HTTPSession) (Stream, error){
		"call": func(s *HTTPSession) (Stream, error) {
			body := []byte("call")
			st, err := s.Send(t.Context(), &Outgoing{Body: body, Request: true, Header: []mcp.Header{{Name: "authorization", Value: "Bearer client"}, {Name: "Traceparent", Value: "x"}}})
			copy(body, "....") // the caller's again
			return st, err
		},
		"notice": func(s *HTTPSession) (Stream, error) {
			return s.Send(t.Context(), &Outgoing{Body: []byte("notice")})
		},
		"listen": func(s *HTTPSession) (Stream, error) { return s.Listen(t.Context(), ListenOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			k := new(tokens)
			st, err := send(newHTTP(t, HTTPConfig{URL: at, Credential: k}).Session("", ""))
			if err == nil && st != nil {
				defer st.Close()
				_, err = First(st)
			}
			if got := got(); err != nil || len(got) != 2 || got[0].Header.Get("Authorization") != "Bearer t0" || got[1].Header.Get("Authorization") != "Bearer t1" || got[0].Text != got[1].Text {
				t.Errorf("%v, %+v", err, got)
			}
			if len(k.refused) != 1 || k.refused[0] != "Bearer t0 401" {
				t.Error(k.refused)
			}
		})
	}
	t.Run("refused again", func(t *testing.T) {
		good = "Bearer none"
		_, err := newHTTP(t, HTTPConfig{URL: at, Credential: new(tokens)}).Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")})
		of, ok := errors.AsType[*CredentialError](err)
		if got := got(); !ok || of.Err != errUseless || len(got) != 2 {
			t.Error(err, got)
		}
	})
	t.Run("no new token", func(t *testing.T) {
		k := &tokens{none: errors.New("sign in")}
		_, err := newHTTP(t, HTTPConfig{URL: at, Credential: k}).Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")})
		if got := got(); !errors.Is(err, k.none) || len(got) != 1 {
			t.Error(err, got)
		}
	})
}

// TestCredentialIsForOneServer (S7): the credential goes to the server's own URL, in a header: not to where a response redirects
// to, and not in the URL.
func TestCredentialIsForOneServer(t *testing.T) {
	elsewhere := peertest.NewServer(t, peertest.HTTP, func(*peertest.Turn) {})
	elsewhere.Every = true
	to := elsewhere.At().URL
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
			u.Web.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			u.Web.Header().Set("Location", to)
			u.Refuse(status)
		})
		server.Every = true
		k := new(tokens)
		h := newHTTP(t, HTTPConfig{URL: server.At().URL + "/mcp?of=us", Credential: k})
		_, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")})
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != status {
			t.Error(status, err)
		}
		if asked := server.Heard(); len(asked) != 1 || asked[0].Target != "/mcp?of=us" || asked[0].Header.Get("Authorization") != "Bearer t0" || len(k.refused) != 0 {
			t.Error(status, asked, k.refused)
		}
	}
	if strayed := elsewhere.Heard(); len(strayed) != 0 {
		t.Error("requests to another server:", strayed)
	}
}

// TestCredentialCopiesAreCounted: the copy of a large request, from which it can be sent once more, counts against the
// budget of messages until the server has answered.
func TestCredentialCopiesAreCounted(t *testing.T) {
	m := large.NewMemory(4 << 20)
	body := bytes.Repeat([]byte("x"), 1<<20)
	var taken []int64
	server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		if u.Text != string(body) {
			t.Error(len(u.Text), "bytes arrived")
		}
		taken = append(taken, m.Budget.Taken())
		if u.Header.Get("Authorization") != "Bearer t1" {
			u.Refuse(http.StatusUnauthorized)
		}
	})
	s := newHTTP(t, HTTPConfig{URL: server.At().URL, Credential: new(tokens), Memory: m}).Session("", "")
	if _, err := s.Send(t.Context(), &Outgoing{Body: body}); err != nil {
		t.Fatal(err)
	}
	if len(taken) != 2 || taken[0] < int64(len(body)) || taken[1] < int64(len(body)) || taken[0] > int64(len(body))+64<<10 {
		t.Errorf("counted %d of %d bytes", taken, len(body))
	}
	peertest.Eventually(t, "no bytes are counted after the answer", func() bool {
		runtime.GC()
		return m.Budget.Taken() == 0
	})
	if err := m.Budget.Take(t.Context(), large.RequestCopy, 4<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("it waits"))
	defer cancel()
	if _, err := s.Send(ctx, &Outgoing{Body: body}); err == nil || err.Error() != "it waits" || len(taken) != 2 {
		t.Error(err, len(taken))
	}
}
