package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/large"
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
	type seen struct{ method, authorization, body string }
	var mu sync.Mutex
	var got []seen
	good := "Bearer t1"
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, seen{r.Method, r.Header.Get("Authorization"), string(body)})
		want := good
		mu.Unlock()
		switch {
		case len(r.Header.Values("Authorization")) != 1 || r.Header.Get("Authorization") != want:
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "no", http.StatusUnauthorized)
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
		case string(body) == "notice":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	}))
	defer ts.Close()
	for name, send := range map[string]func(*HTTPSession) (Stream, error){
		"call": func(s *HTTPSession) (Stream, error) {
			body := []byte("call")
			st, err := s.Send(t.Context(), &Outgoing{Body: body, Request: true, Header: []Header{{"authorization", "Bearer client"}, {"Traceparent", "x"}}})
			copy(body, "....") // the caller's again
			return st, err
		},
		"notice": func(s *HTTPSession) (Stream, error) {
			return s.Send(t.Context(), &Outgoing{Body: []byte("notice")})
		},
		"listen": func(s *HTTPSession) (Stream, error) { return s.Listen(t.Context(), ListenOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			got = nil
			k := new(tokens)
			h, err := NewHTTP(HTTPConfig{URL: ts.URL, Credential: k})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			st, err := send(h.Session("", ""))
			if err == nil && st != nil {
				defer st.Close()
				_, err = First(st)
			}
			if err != nil || len(got) != 2 || got[0].authorization != "Bearer t0" || got[1].authorization != "Bearer t1" || got[0].body != got[1].body {
				t.Errorf("%v, %+v", err, got)
			}
			if len(k.refused) != 1 || k.refused[0] != "Bearer t0 401" {
				t.Error(k.refused)
			}
		})
	}
	t.Run("refused again", func(t *testing.T) {
		got, good = nil, "Bearer none"
		k := new(tokens)
		h, _ := NewHTTP(HTTPConfig{URL: ts.URL, Credential: k})
		defer h.Close()
		_, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")})
		if of, ok := errors.AsType[*CredentialError](err); !ok || of.Err != errUseless || len(got) != 2 {
			t.Error(err, got)
		}
	})
	t.Run("no new token", func(t *testing.T) {
		got = nil
		k := &tokens{none: errors.New("sign in")}
		h, _ := NewHTTP(HTTPConfig{URL: ts.URL, Credential: k})
		defer h.Close()
		if _, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")}); !errors.Is(err, k.none) || len(got) != 1 {
			t.Error(err, got)
		}
	})
}

// TestCredentialIsForOneServer (S7): the credential goes to the server's own URL, in a header: not to where a response redirects
// to, and not in the URL.
func TestCredentialIsForOneServer(t *testing.T) {
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var asked []string
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.RequestURI+" "+r.Header.Get("Authorization"))
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Redirect(w, r, elsewhere.URL, status)
		}))
		k := new(tokens)
		h, err := NewHTTP(HTTPConfig{URL: ts.URL + "/mcp?of=us", Credential: k})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte("notice")})
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != status {
			t.Error(status, err)
		}
		if len(asked) != 1 || asked[0] != "/mcp?of=us Bearer t0" || len(k.refused) != 0 {
			t.Error(status, asked, k.refused)
		}
		h.Close()
		ts.Close()
	}
	if n := strayed.Load(); n != 0 {
		t.Error(n, "requests to another server")
	}
}

// TestCredentialCopiesAreCounted: the copy of a large request, from which it can be sent once more, counts against the
// budget of messages until the server has answered.
func TestCredentialCopiesAreCounted(t *testing.T) {
	m := large.NewMemory(4 << 20)
	body := bytes.Repeat([]byte("x"), 1<<20)
	var taken []int64
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n != int64(len(body)) {
			t.Error(n, "bytes arrived")
		}
		taken = append(taken, m.Budget.Taken())
		if r.Header.Get("Authorization") != "Bearer t1" {
			w.WriteHeader(http.StatusUnauthorized)
		} else {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer ts.Close()
	s := newHTTP(t, HTTPConfig{URL: ts.URL, Credential: new(tokens), Memory: m}).Session("", "")
	if _, err := s.Send(t.Context(), &Outgoing{Body: body}); err != nil {
		t.Fatal(err)
	}
	if len(taken) != 2 || taken[0] < int64(len(body)) || taken[1] < int64(len(body)) || taken[0] > int64(len(body))+64<<10 {
		t.Errorf("counted %d of %d bytes", taken, len(body))
	}
	for end := time.Now().Add(10 * time.Second); m.Budget.Taken() != 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal(m.Budget.Taken(), "bytes are counted after the answer")
		}
	}
	if err := m.Budget.Take(t.Context(), large.RequestCopy, 4<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("it waits"))
	defer cancel()
	if _, err := s.Send(ctx, &Outgoing{Body: body}); err == nil || err.Error() != "it waits" || len(taken) != 2 {
		t.Error(err, len(taken))
	}
}
