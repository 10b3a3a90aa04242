package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func every(string) bool { return true }

// cookieServer answers each request with the Set-Cookie lines that say returns for its number, and notes what the requests carry.
type cookieServer struct {
	*server
	status string
	mu     sync.Mutex
	got    []string // the Cookie lines of each request
}

func setsCookies(t *testing.T, say func(n int) []string) *cookieServer {
	t.Helper()
	s := &cookieServer{server: new(server)}
	s.start(t, func(c net.Conn, in *bufio.Reader) {
		for {
			r, ok := take(in)
			if !ok {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, strings.Join(r.Header["Cookie"], " | "))
			reply := jsonReply(answer)
			for _, line := range say(len(s.got)) {
				reply = strings.Replace(reply, "\r\n", "\r\nSet-Cookie: "+line+"\r\n", 1)
			}
			if s.status != "" {
				reply = strings.Replace(reply, "200 OK", s.status, 1)
			}
			s.mu.Unlock()
			if r.Method == "GET" {
				reply = strings.Replace(eventHead, "200 OK", "200 OK\r\nSet-Cookie: got="+fmt.Sprint(len(s.got)), 1) + "\r\n"
			}
			if _, err := io.WriteString(c, reply); err != nil || r.Method == "GET" {
				return
			}
		}
	})
	return s
}

func first(lines ...string) func(int) []string {
	return func(n int) []string {
		if n > 1 {
			return nil
		}
		return lines
	}
}

func (s *cookieServer) carried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

// TestNextRequestCarriesTheCookies that are for it, by https://www.rfc-editor.org/rfc/rfc6265#section-5. The URL is http://127.0.0.1/mcp.
func TestNextRequestCarriesTheCookies(t *testing.T) {
	past, future := "Thu, 01 Jan 1970 00:00:00 GMT", "Tue, 19 Jan 2038 03:14:07 GMT"
	for _, c := range []struct {
		name string
		set  []string
		want string
	}{
		{"one", []string{"AWSALB=a+b/c=; Path=/"}, "AWSALB=a+b/c="},
		{"in the order in which they came", []string{"b=2", "a=1"}, "a=1; b=2"}, // setsCookies writes the last one first
		{"no scope", []string{"a=1"}, "a=1"},
		{"for ever", []string{"a=1; Expires=" + future}, "a=1"},
		{"with dashes", []string{"a=1; expires=Tue, 19-Jan-2038 03:14:07 GMT"}, "a=1"},
		{"for a while", []string{"a=1; Max-Age=600; Expires=" + past}, "a=1"},
		{"for longer than there are numbers", []string{"a=1; max-age=99999999999999999999"}, "a=1"},
		{"over", []string{"a=1; Expires=" + past}, ""},
		{"over at once", []string{"a=1; Max-Age=0; Expires=" + future}, ""},
		{"over before", []string{"a=1; Max-Age=-5"}, ""},
		{"an end that cannot be read", []string{"a=1; Max-Age=soon; Expires=never"}, "a=1"},
		{"taken back", []string{"a=1; Max-Age=0", "a=1"}, ""},
		{"set again", []string{"a=2", "a=1"}, "a=2"},
		{"one name for two paths", []string{"a=2; Path=/", "a=1; Path=/mcp"}, "a=1; a=2"},
		{"this path", []string{"a=1; Path=/mcp"}, "a=1"},
		{"another path", []string{"a=1; Path=/mc"}, ""},
		{"a path below", []string{"a=1; Path=/mcp/x"}, ""},
		{"a path that is none", []string{"a=1; Path=mcp"}, "a=1"},
		{"another host", []string{"a=1; Domain=example.com"}, ""},
		{"the host", []string{"a=1; Domain=127.0.0.1"}, "a=1"},
		{"the end of an address", []string{"a=1; Domain=0.0.1"}, ""},
		{"for https", []string{"a=1; Secure"}, ""},
		{"quoted", []string{`a="x y"; HttpOnly; SameSite=None; Partitioned`}, `a="x y"`},
		{"no value", []string{"a="}, "a="},
		{"no name", []string{"=1", "a"}, ""},
		{"a name that is none", []string{"a b=1", "é=1", "a(=1"}, ""},
		{"too large", []string{"a=" + strings.Repeat("x", maxCookie)}, ""},
		{"empty", []string{""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setsCookies(t, first(c.set...))
			session := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every}).Session("", "")
			said(t.Context(), session)
			said(t.Context(), session)
			if got := s.carried(); len(got) != 2 || got[0] != "" || got[1] != c.want {
				t.Errorf("carried %q, want %q", got, c.want)
			}
		})
	}
}

func TestCookieForADomain(t *testing.T) {
	for set, want := range map[string]bool{
		"a=1; Domain=b.example": true, "a=1; Domain=.B.Example": true, "a=1; Domain=a.b.example": true, "a=1; Domain=example": true, "a=1; Domain=": true,
		"a=1; Domain=x.a.b.example": false, "a=1; Domain=c.example": false, "a=1; Domain=.example.com": false, "a=1; Domain=ample": false,
	} {
		if _, ok := parseCookie(set, "a.b.example", "/mcp", time.Now()); ok != want {
			t.Errorf("%s: %t", set, ok)
		}
	}
}

// TestSecureCookieOverTLS: a cookie for secure connections is sent over https.
func TestSecureCookieOverTLS(t *testing.T) {
	var mu sync.Mutex
	var got []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Cookie"))
		w.Header().Set("Set-Cookie", "a=1; Secure")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	}))
	defer s.Close()
	session := newHTTP(t, HTTPConfig{URL: s.URL, Cookies: every, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}).Session("", "")
	said(t.Context(), session)
	said(t.Context(), session)
	if len(got) != 2 || got[0] != "" || got[1] != "a=1" {
		t.Errorf("%q", got)
	}
}

// TestWhichCookiesAreKept: only those whose names are asked for, of the session that they were set in, and none without the setting.
func TestWhichCookiesAreKept(t *testing.T) {
	set := func(int) []string { return []string{"AWSALBCORS=1", "login=2"} }
	for what, c := range map[string]struct {
		keeps func(string) bool
		want  string
	}{"of balancers": {IsBalancerCookie, "AWSALBCORS=1"}, "none": {nil, ""}, "all": {every, "login=2; AWSALBCORS=1"}} {
		s := setsCookies(t, set)
		h := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: c.keeps})
		one, other := h.Session("", ""), h.Session("", "")
		said(t.Context(), one)
		said(t.Context(), other)
		said(t.Context(), one)
		said(t.Context(), other)
		if got := s.carried(); got[0] != "" || got[1] != "" || got[2] != c.want || got[3] != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, name := range []string{"AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBAPP-0", "ARRAffinity", "ARRAffinitySameSite", "GCLB", "__cf_bm", "__cflb", "SERVERID", "route"} {
		if !IsBalancerCookie(name) {
			t.Errorf("%s is not one of a balancer", name)
		}
	}
	for _, name := range []string{"", "awsalb", "XAWSALB", "ARRaffinity", "GCLB2", "router", "JSESSIONID", "session"} {
		if IsBalancerCookie(name) {
			t.Errorf("%s is one of a balancer", name)
		}
	}
}

// TestEachRequestOfASessionCarriesItsCookies, whatever it is, and whatever the response was.
func TestEachRequestOfASessionCarriesItsCookies(t *testing.T) {
	s := setsCookies(t, func(n int) []string { return []string{fmt.Sprintf("n=%d", n)} })
	session := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every}).Session("id", "2025-06-18")
	ctx := t.Context()
	s.status = "400 Bad Request"
	said(ctx, session)
	s.status = "202 Accepted"
	if _, err := session.Send(ctx, &Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != nil {
		t.Error(err)
	}
	s.status = ""
	if st, err := session.Listen(ctx, ListenOptions{}); err != nil {
		t.Error(err)
	} else {
		First(st)
		st.Close()
	}
	s.status = "204 No Content"
	if err := session.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(s.carried(), ","), ",n=1,n=2,n=2; got=3"; got != want {
		t.Errorf("carried %q, want %q", got, want)
	}
}

// TestOwnCookiesWin: what the client or the configuration says of a cookie is not changed, and there is one header.
func TestOwnCookiesWin(t *testing.T) {
	for _, c := range []struct{ configured, client, want string }{
		{"", "route=mine", "route=mine; a=1"},
		{"", "x=1;a=2", "x=1;a=2; route=r"},
		{"login=l; a=3", "", "login=l; a=3; route=r"},
		{"login=l", "x=1", "login=l; a=1; route=r"}, // as any other header of the configuration
	} {
		s := setsCookies(t, first("route=r", "a=1"))
		cfg := HTTPConfig{URL: s.url(), Cookies: every}
		if c.configured != "" {
			cfg.Header = []mcp.Header{{Name: "cookie", Value: c.configured}}
		}
		session := newHTTP(t, cfg).Session("", "")
		said(t.Context(), session)
		m := &Outgoing{Body: []byte(ping), Request: true}
		if c.client != "" {
			m.Header = []mcp.Header{{Name: "COOKIE", Value: c.client}}
		}
		if st, err := session.Send(t.Context(), m); err != nil {
			t.Error(err)
		} else {
			First(st)
			st.Close()
		}
		if got := s.carried(); got[0] != c.configured || got[1] != c.want {
			t.Errorf("carried %q, want %q", got, c.want)
		}
	}
}

// TestCookiesOfEqualHeads: the head of a response that sets a cookie is read anew each time, also where it is that of the response
// before on its connection, which may have been for another session.
func TestCookiesOfEqualHeads(t *testing.T) {
	s := setsCookies(t, func(int) []string { return []string{"a=1"} })
	h := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every, MaxIdleConns: 1})
	var want []string
	for range 4 {
		session := h.Session("", "")
		said(t.Context(), session)
		said(t.Context(), session)
		want = append(want, "", "a=1")
	}
	if got := s.carried(); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("%q", got)
	}
}

// TestCookiesAreNotForOthers: a redirect is not followed, and what a web proxy sets is not the server's.
func TestCookiesAreNotForOthers(t *testing.T) {
	elsewhere := setsCookies(t, first())
	s := setsCookies(t, func(int) []string { return []string{"a=1"} })
	s.status = "307 Temporary Redirect\r\nLocation: " + elsewhere.url()
	session := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every}).Session("", "")
	said(t.Context(), session)
	said(t.Context(), session)
	if got := s.carried(); len(elsewhere.carried()) > 0 || got[1] != "a=1" {
		t.Errorf("%q, and elsewhere %q", got, elsewhere.carried())
	}
	s.status = "407 Proxy Authentication Required"
	session = newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every}).Session("", "")
	said(t.Context(), session)
	said(t.Context(), session)
	if got := s.carried(); got[3] != "" {
		t.Errorf("%q", got)
	}
}

// TestCookiesAreBounded in number and bytes, and count as what is kept of messages.
func TestCookiesAreBounded(t *testing.T) {
	for _, size := range []int{1, 1000} {
		s := setsCookies(t, func(n int) []string {
			var lines []string
			for i := range 20 {
				lines = append(lines, fmt.Sprintf("c%d=%s", 20*n+i, strings.Repeat("x", size)))
			}
			return append([]string{"AWSALB=a"}, lines...)
		})
		memory := large.NewMemory(1 << 20)
		session := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every, Memory: memory}).Session("", "")
		for range 9 {
			said(t.Context(), session)
		}
		got := s.carried()[8]
		if n := strings.Count(got, "="); n > maxCookies || len(got) > maxCookieBytes+3*n || !strings.Contains(got, "AWSALB=a") {
			t.Errorf("%d cookies, %d bytes: %.200s", n, len(got), got)
		}
		if n := memory.Kept(); n == 0 || n > maxCookieBytes {
			t.Errorf("%d bytes counted", n)
		}
	}
	full := large.NewMemory(8)
	s := setsCookies(t, first("a=1234567890"))
	session := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every, Memory: full}).Session("", "")
	session.cookies.set(cookie{name: "a", value: "1234567890", path: "/"}, full)
	if session.cookies.some.Load() || full.Kept() != 0 {
		t.Error("kept without memory")
	}
}

// TestCookiesOfHTTPWithSSE: the stream and the messages of a session carry them, each by its own path.
func TestCookiesOfHTTPWithSSE(t *testing.T) {
	peertest.NoLeaks(t)
	var mu sync.Mutex
	var got []string
	l := (&legacy{endpoint: endpointEvent, requests: func(r *http.Request, _ string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.Header.Get("Cookie"))
	}, accept: func(*http.Request) string {
		return strings.Replace(accepted, "\r\n", "\r\nSet-Cookie: posted=1\r\nSet-Cookie: stream=1; Path=/sse\r\n", 1)
	}, joined: func(*http.Request) string {
		return eventHead + "Set-Cookie: route=r1; Path=/\r\nSet-Cookie: here=1; Path=/sse\r\nContent-Length: " + fmt.Sprint(len(endpointEvent)+1000) + "\r\n\r\n" + endpointEvent
	}}).start(t)
	s := newHTTP(t, HTTPConfig{URL: l.url(), Cookies: every}).SSESession()
	st, err := s.Listen(t.Context(), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	defer st.Close()
	for range 2 {
		if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if text := strings.Join(got, ","); text != "GET ,POST route=r1,POST route=r1; posted=1" {
		t.Error(text)
	}
}

// TestCookiesMoveToAnotherProcess as a text that holds what they are for. The text is bounded, and those of balancers come first.
func TestCookiesMoveToAnotherProcess(t *testing.T) {
	end := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	s := setsCookies(t, first("login=l; Expires="+end, "gone=1; Max-Age=0", "secure=1; Secure; Domain=127.0.0.1", "below=1; Path=/mcp/x", "AWSALB=a; Path=/"))
	var secrets []string
	h := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every, Secret: func(_, v string) { secrets = append(secrets, v) }})
	one, other := h.Session("", ""), h.Session("", "")
	if one.Cookies(1<<10) != "" {
		t.Error("a text of none")
	}
	said(t.Context(), one)
	text := one.Cookies(1 << 10)
	other.AddCookies(text)
	if again := other.Cookies(1 << 10); again != text || !strings.HasPrefix(text, "AWSALB\x00a\x00") {
		t.Errorf("%q became %q", text, again)
	}
	said(t.Context(), other)
	if got := s.carried()[1]; got != "AWSALB=a; login=l" {
		t.Errorf("carried %q", got)
	}
	if short := one.Cookies(20); short != "AWSALB\x00a\x00\x00/\x00\x00" {
		t.Errorf("%q", short)
	}
	if len(secrets) < 4 {
		t.Errorf("%q", secrets)
	}
	other.AddCookies("a\nb\x00c\n\x00\x00\x00\x00\x00\x00")
	none := newHTTP(t, HTTPConfig{URL: s.url()}).Session("", "")
	if none.AddCookies(text); none.Cookies(1<<10) != "" {
		t.Error("cookies were added although none are kept")
	}
}

// TestReplacedServerDecidesOnCookies: a reload that keeps no cookies any more holds for the sessions that there are.
func TestReplacedServerDecidesOnCookies(t *testing.T) {
	s := setsCookies(t, first("route=r", "login=l"))
	h := newHTTP(t, HTTPConfig{URL: s.url(), Cookies: every})
	session := h.Session("", "")
	said(t.Context(), session)
	for _, keeps := range []func(string) bool{IsBalancerCookie, nil, every} {
		h.ReplacedBy(newHTTP(t, HTTPConfig{URL: s.url(), Cookies: keeps}))
		said(t.Context(), session)
	}
	if got := strings.Join(s.carried(), ","); got != ",route=r,,login=l; route=r" {
		t.Error(got)
	}
}

func FuzzSetCookie(f *testing.F) {
	for _, seed := range []string{"a=1", "a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=1; Domain=.example.com; Secure", "=;=;=", "a=\"b;c\"", ";", "a=\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, ok := parseCookie(line, "a.example.com", "/mcp?x", time.Now())
		if !ok {
			return
		}
		j := new(jar)
		j.set(c, large.NewMemory(1<<20))
		head := string(j.append([]byte("GET / HTTP/1.1\r\nHost: h\r\n"), "given=1", c.path, true, every)) + "\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil || len(r.Header) != 1 {
			t.Errorf("%q: %v in %q", line, err, head)
		}
	})
}
