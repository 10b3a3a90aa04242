package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// asm answers requests for AS metadata: https://www.rfc-editor.org/rfc/rfc8414
func (s *Server) asm(w http.ResponseWriter, r *http.Request, here bool) {
	o := s.options(func(c *Counts) { c.ASM++ })
	at := asmPath + s.asPath
	if o.OIDCOnly {
		at = s.asPath + oidcPath
	}
	if !here || o.NoASM || r.URL.Path != at {
		http.NotFound(w, r)
		return
	}
	methods := []string{"none", "client_secret_basic", "client_secret_post"}
	doc := map[string]any{
		"issuer":                                         s.claimed(o),
		"authorization_endpoint":                         s.Issuer + "/authorize",
		"token_endpoint":                                 s.Issuer + "/token",
		"revocation_endpoint":                            s.Issuer + "/revoke",
		"response_types_supported":                       []string{"code"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials"},
		"token_endpoint_auth_methods_supported":          methods,
		"revocation_endpoint_auth_methods_supported":     methods,
		"authorization_response_iss_parameter_supported": true,
	}
	if o.Keys != nil {
		doc["token_endpoint_auth_methods_supported"] = append(methods, "private_key_jwt")
		doc["token_endpoint_auth_signing_alg_values_supported"] = []string{"ES256", "RS256"}
	}
	if !o.NoPKCE {
		doc["code_challenge_methods_supported"] = []string{"S256"}
	}
	if !o.NoDCR {
		doc["registration_endpoint"] = s.Issuer + "/register"
	}
	if o.Device {
		doc["device_authorization_endpoint"] = s.Issuer + "/device"
		doc["grant_types_supported"] = append(doc["grant_types_supported"].([]string), deviceGrant)
	}
	if o.CIMD {
		doc["client_id_metadata_document_supported"] = true
	}
	if o.OfflineAccess {
		doc["scopes_supported"] = append(o.Scopes, "offline_access")
	}
	if o.OIDCOnly { // members that OpenID Connect Discovery requires
		doc["jwks_uri"] = s.Issuer + "/jwks"
		doc["subject_types_supported"] = []string{"public"}
		doc["id_token_signing_alg_values_supported"] = []string{"RS256"}
	}
	writeJSON(w, http.StatusOK, doc)
}

// claimed returns the issuer as the AS spells it.
func (s *Server) claimed(o Options) string {
	if o.WrongIssuer != "" {
		return o.WrongIssuer
	}
	return s.Issuer
}

// register registers a client: https://www.rfc-editor.org/rfc/rfc7591
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	o := s.options(func(c *Counts) { c.Registrations++ })
	body, err := io.ReadAll(r.Body)
	var asked struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
		Scope     string   `json:"scope"`
	}
	answer := map[string]any{}
	if err != nil || json.Unmarshal(body, &asked) != nil || json.Unmarshal(body, &answer) != nil || answer == nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "the body is not client metadata")
		return
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	unfit := func(redirect string) bool {
		u, err := url.Parse(redirect)
		return err != nil || u.Fragment != "" || u.Scheme != "https" && !isLoopback(u) ||
			o.RefuseLoopbackIP && isLoopback(u) && u.Hostname() != "localhost"
	}
	switch {
	case o.NoDCR:
		http.NotFound(w, r)
		return
	case o.RefuseDCR != "":
		refuse(w, http.StatusBadRequest, o.RefuseDCR, "registrations are refused")
		return
	case len(asked.Redirects) == 0 || slices.ContainsFunc(asked.Redirects, unfit):
		refuse(w, http.StatusBadRequest, "invalid_redirect_uri", "a redirect URI is not allowed")
		return
	case o.RefuseDCRScopes && asked.Scope != "":
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "unknown scope")
		return
	}
	id, c := "client-"+rand.Text(), client{redirects: asked.Redirects, grants: asked.Grants}
	answer["client_id"], answer["client_id_issued_at"] = id, o.now().Unix()
	if asked.Method != "none" {
		c.secret = "canary-secret-" + rand.Text()
		answer["client_secret"], answer["client_secret_expires_at"] = c.secret, 0
	}
	s.mu.Lock()
	s.clients[id] = c
	s.mu.Unlock()
	writeJSON(w, http.StatusCreated, answer)
}

// allows reports whether u is a redirect URI of the client. The port of loopback redirect URIs does not
// matter: https://www.rfc-editor.org/rfc/rfc8252#section-7.3
func (c client) allows(u *url.URL) bool {
	if c.redirects == nil {
		return isLoopback(u)
	}
	return slices.ContainsFunc(c.redirects, func(redirect string) bool {
		return portless(redirect) == portless(u.String())
	})
}

// portless returns a redirect URI, without the port if it is one of loopback.
func portless(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil || !isLoopback(u) {
		return redirect
	}
	u.Host = u.Hostname()
	return u.String()
}

// isLoopback reports whether u is an http URL of this machine.
func isLoopback(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && a.IsLoopback())
}

// authorize redirects at once, as if the user had agreed. It does not redirect to unknown URLs.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	o := s.options(func(c *Counts) { c.Authorizations++ })
	q := r.URL.Query()
	s.mu.Lock()
	c, known := s.lookup(q.Get("client_id"))
	s.mu.Unlock()
	back, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case !known:
		http.Error(w, "unknown client_id", http.StatusBadRequest)
		return
	case err != nil || !c.allows(back):
		http.Error(w, "unregistered redirect_uri", http.StatusBadRequest)
		return
	}
	answer := back.Query()
	fail := func(code, why string) {
		answer.Set("error", code)
		answer.Set("error_description", why)
	}
	switch {
	case o.Deny != "":
		fail(o.Deny, "the authorization was refused")
	case q.Get("response_type") != "code":
		fail("unsupported_response_type", "only code is supported")
	case q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "":
		fail("invalid_request", "PKCE with S256 is required")
	case o.NoResource && q.Has("resource") || len(q["resource"]) > 1:
		fail("invalid_target", "unknown resource")
	default:
		code := "canary-code-" + rand.Text()
		answer.Set("code", code)
		s.mu.Lock()
		s.codes[code] = &grant{
			client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"),
			resource: q.Get("resource"), scopes: strings.Fields(q.Get("scope")),
		}
		s.mu.Unlock()
	}
	if q.Has("state") {
		answer.Set("state", q.Get("state"))
	}
	switch o.WrongIss {
	case "":
		answer.Set("iss", s.claimed(o))
	case "-":
	default:
		answer.Set("iss", o.WrongIss)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	form := r.PostForm
	refresh := form.Get("grant_type") == "refresh_token"
	o := s.options(func(c *Counts) {
		s.forms = append(s.forms, form)
		if refresh {
			c.Refreshes++
		} else if form.Get("grant_type") == "authorization_code" {
			c.Codes++
		} else if form.Get("grant_type") == deviceGrant {
			c.Polls++
		}
	})
	if o.TokenRedirect && r.URL.Path != elsewhere {
		http.Redirect(w, r, s.another+elsewhere, http.StatusTemporaryRedirect)
		return
	}
	if poll := form.Get("grant_type") == deviceGrant; poll && o.PollStatus > 0 {
		s.Change(func(o *Options) { o.PollStatus = 0 })
		w.WriteHeader(o.PollStatus)
		return
	}
	if refresh && o.RefreshStatus > 0 {
		w.WriteHeader(o.RefreshStatus)
		return
	}
	if refresh && o.DropRefresh {
		panic(http.ErrAbortHandler)
	}
	id, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	answer, code, why := s.exchange(form, id, o, o.now())
	if o.SlowToken > 0 {
		select {
		case <-time.After(o.SlowToken):
		case <-r.Context().Done():
		case <-s.done:
		}
	}
	switch {
	case refresh && o.CutRefresh:
		panic(http.ErrAbortHandler)
	case code != "":
		refuse(w, http.StatusBadRequest, code, why)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// exchange returns tokens for a code or a refresh token, or an error code.
func (s *Server) exchange(form url.Values, id string, o Options, now time.Time) (answer map[string]any, code, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var g *grant
	var old *refreshToken
	switch form.Get("grant_type") {
	case "authorization_code":
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		g = s.codes[form.Get("code")]
		switch {
		case g == nil || g.client != id:
			return nil, "invalid_grant", "unknown code"
		case g.used:
			g.ended = true // RFC 6749 section 4.1.2
			return nil, "invalid_grant", "the code was used before"
		}
		g.used = true
		switch {
		case form.Get("redirect_uri") != g.redirect:
			return nil, "invalid_grant", "another redirect_uri than before"
		case base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge:
			return nil, "invalid_grant", "wrong code_verifier"
		}
	case "refresh_token":
		old = s.refresh[form.Get("refresh_token")]
		switch {
		case old == nil || old.grant.client != id || old.grant.ended:
			return nil, "invalid_grant", "unknown or revoked refresh token"
		case old.used:
			old.grant.ended = true
			return nil, "invalid_grant", "the refresh token was used before"
		}
		g = old.grant
	case deviceGrant:
		if g, code, why = s.byDevice(form.Get("device_code"), id, o); g == nil {
			return nil, code, why
		}
	case bearerGrant:
		if why := s.asserted(form.Get("assertion"), o); why != "" {
			return nil, "invalid_grant", why
		}
		g = &grant{client: id, resource: form.Get("resource"), scopes: strings.Fields(form.Get("scope"))}
	case "client_credentials":
		if c, _ := s.lookup(id); c.secret == "" && c.key == nil {
			return nil, "unauthorized_client", "a public client has no credentials"
		}
		g = &grant{client: id, resource: form.Get("resource"), scopes: strings.Fields(form.Get("scope"))}
	default:
		return nil, "unsupported_grant_type", "unknown grant type"
	}
	if o.NoResource && form.Has("resource") || !o.NoResource && form.Get("resource") != g.resource {
		return nil, "invalid_target", "another resource than before"
	}
	scopes := g.scopes
	if old != nil && form.Has("scope") {
		if scopes = strings.Fields(form.Get("scope")); !containsAll(g.scopes, scopes) {
			return nil, "invalid_scope", "more scopes than before"
		}
	}
	life := o.TokenLife
	if life <= 0 {
		life = time.Hour
	}
	access := "canary-access-" + rand.Text()
	s.access[access] = accessToken{grant: g, scopes: scopes, expires: now.Add(life)}
	seconds := int((life + time.Second - 1) / time.Second) // 0 would mean no expiry to some clients
	answer = map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": seconds}
	if o.Subject != "" {
		claims, _ := json.Marshal(map[string]string{"iss": s.claimed(o), "sub": o.Subject, "aud": id})
		answer["id_token"] = "e30." + base64.RawURLEncoding.EncodeToString(claims) + "."
	}
	if len(scopes) > 0 {
		answer["scope"] = strings.Join(scopes, " ")
	}
	if form.Get("grant_type") != "client_credentials" && form.Get("grant_type") != bearerGrant && !o.NoRefresh && (!o.OfflineAccess || slices.Contains(g.scopes, "offline_access")) {
		if old != nil {
			old.used = true
		}
		next := "canary-refresh-" + rand.Text()
		s.refresh[next] = &refreshToken{grant: g}
		answer["refresh_token"] = next
	}
	return answer, "", ""
}

// revoke ends a token, and with a refresh token all tokens of its grant: https://www.rfc-editor.org/rfc/rfc7009
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.options(func(c *Counts) { c.Revocations++ })
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	id, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := r.PostForm.Get("token")
	if t := s.refresh[token]; t != nil && t.grant.client == id {
		t.grant.ended = true
	}
	if t, known := s.access[token]; known && t.grant.client == id {
		delete(s.access, token)
	}
}
