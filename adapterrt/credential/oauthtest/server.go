// Package oauthtest is an OAuth server for tests, with an API behind it. Refresh tokens
// rotate, and one that is used again ends its login, as
// https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2 asks for.
package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
)

// The client that the server knows.
const (
	ClientID     = "canary-client-id"
	ClientSecret = "canary-client-secret"
)

// Server is the OAuth server with the endpoints /token, /authorize, /device and /revoke, and
// the API /api. The exported fields must be set before the first request.
type Server struct {
	*httptest.Server
	Life      int  // seconds of an access token, default 3600
	Keeps     bool // refresh tokens do not rotate
	NoRefresh bool // the server gives no refresh tokens
	Public    bool // the client does not authenticate

	mu      sync.Mutex
	before  func(url.Values, http.ResponseWriter) bool
	after   func(url.Values)
	made    int
	access  map[string]int    // number of the login by valid access token
	refresh map[string]int    // number of the login by newest refresh token
	used    map[string]int    // number of the login by earlier refresh token
	codes   map[string]string // code challenge by code
	device  map[string]int    // remaining polls until the user agrees, by device code
	forms   []url.Values
	reused  int
}

// New starts a server, which the caller closes.
func New() *Server {
	s := &Server{Life: 3600, access: map[string]int{}, refresh: map[string]int{}, used: map[string]int{}, codes: map[string]string{}, device: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /device", s.begin)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /revoke", s.revoke)
	mux.HandleFunc("GET /api/status", s.api)
	s.Server = httptest.NewServer(mux)
	return s
}

// Before makes the server call f first for each request to /token. f reports whether it has
// answered the request. If f is nil, nothing is called.
func (s *Server) Before(f func(form url.Values, w http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// After makes the server call f for each request to /token when it has processed the request
// and not yet sent the answer.
func (s *Server) After(f func(form url.Values)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

// Login makes a new login and returns its first refresh token.
func (s *Server) Login() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	t := fmt.Sprintf("canary-refresh-%d", s.made)
	s.refresh[t] = s.made
	return t
}

// Forms returns the forms of the requests to /token so far.
func (s *Server) Forms() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]url.Values(nil), s.forms...)
}

// Reused returns how many requests came with a refresh token that was already replaced.
func (s *Server) Reused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reused
}

// RefuseTokens makes the API refuse all access tokens made so far.
func (s *Server) RefuseTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// EndLogins ends all logins.
func (s *Server) EndLogins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.refresh)
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q,"error_description":%q}`, code, description)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	s.mu.Lock()
	s.forms = append(s.forms, form)
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil && before(form, w) {
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	if !s.Public && form.Get("client_assertion") == "" && (id != ClientID || secret != ClientSecret) || id != "" && id != ClientID {
		refuse(w, 401, "invalid_client", "who are you")
		return
	}
	s.mu.Lock()
	answer, code, why := s.grant(form)
	s.mu.Unlock()
	if after != nil {
		after(form)
	}
	if code != "" {
		refuse(w, 400, code, why)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, answer)
}

// grant answers a token request. It is called with s.mu held.
func (s *Server) grant(form url.Values) (answer, code, why string) {
	login := 0
	switch form.Get("grant_type") {
	case "refresh_token":
		t := form.Get("refresh_token")
		var ok bool
		if login, ok = s.refresh[t]; !ok {
			if family, was := s.used[t]; was {
				s.reused++
				s.end(family)
				return "", "invalid_grant", "refresh token reused: " + t
			}
			return "", "invalid_grant", "unknown refresh token"
		}
		if !s.Keeps {
			delete(s.refresh, t)
			s.used[t] = login
		}
	case "authorization_code":
		challenge, ok := s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != challenge {
			return "", "invalid_grant", "wrong code or verifier"
		}
	case "urn:ietf:params:oauth:grant-type:device_code":
		left, ok := s.device[form.Get("device_code")]
		switch {
		case !ok:
			return "", "expired_token", ""
		case left > 0:
			s.device[form.Get("device_code")]--
			return "", "authorization_pending", ""
		}
	}
	s.made++
	if login == 0 {
		login = s.made
	}
	access := fmt.Sprintf("canary-access-%d", s.made)
	s.access[access] = login
	answer = fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":%d`, access, s.Life)
	rotates := strings.Contains("refresh_token authorization_code urn:ietf:params:oauth:grant-type:device_code", form.Get("grant_type"))
	if rotates && !s.NoRefresh && !(s.Keeps && form.Get("grant_type") == "refresh_token") {
		next := fmt.Sprintf("canary-refresh-%d", s.made)
		s.refresh[next] = login
		answer += fmt.Sprintf(`,"refresh_token":%q`, next)
	}
	return answer + "}", "", ""
}

// end ends a login. It is called with s.mu held.
func (s *Server) end(login int) {
	for _, all := range []map[string]int{s.access, s.refresh} {
		for t, of := range all {
			if of == login {
				delete(all, t)
			}
		}
	}
}

// authorize redirects with a code at once, as if the user had agreed.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		http.Error(w, "wrong request", 400)
		return
	}
	s.mu.Lock()
	s.made++
	code := fmt.Sprintf("canary-code-%d", s.made)
	s.codes[code] = q.Get("code_challenge")
	s.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// begin starts a device login. The user agrees to it at the third poll.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	s.made++
	code := fmt.Sprintf("canary-device-%d", s.made)
	s.device[code] = 2
	s.mu.Unlock()
	fmt.Fprintf(w, `{"device_code":%q,"user_code":"WDJB-MJHT","verification_uri":"https://as.example/device","expires_in":600,"interval":1}`, code)
}

// revoke ends the login of a token: https://www.rfc-editor.org/rfc/rfc7009
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	if id, secret, _ := r.BasicAuth(); id != ClientID || secret != ClientSecret {
		refuse(w, 401, "invalid_client", "who are you, with "+r.PostForm.Get("token"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range []map[string]int{s.access, s.refresh} {
		if login, ok := all[r.PostForm.Get("token")]; ok {
			s.end(login)
		}
	}
}

func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, ok := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(401)
		return
	}
	fmt.Fprint(w, `"fine"`)
}
