package oauthtest

import (
	"net/http"
	"net/url"
)

// authenticate returns the id of the client that sends a form. Otherwise it answers the request.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (id string, ok bool) {
	id, secret, basic := r.BasicAuth()
	if basic { // both parts are encoded: RFC 6749 section 2.3.1
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if o := s.options(func(*Counts) {}); o.AssertionKey != nil && id == "" && r.PostForm.Get("grant_type") == bearerGrant {
		return "", true // https://www.rfc-editor.org/rfc/rfc7523#section-3.1
	}
	s.mu.Lock()
	c, known := s.lookup(id)
	s.mu.Unlock()
	if known && c.key != nil {
		if why := s.proven(r.PostForm, id, c.key); why != "" {
			refuse(w, http.StatusUnauthorized, "invalid_client", why)
			return "", false
		}
		return id, true
	}
	if !known || secret != c.secret {
		if basic {
			w.Header().Set("WWW-Authenticate", "Basic")
		}
		refuse(w, http.StatusUnauthorized, "invalid_client", "unknown client or wrong secret")
		return "", false
	}
	return id, true
}

// lookup returns the client with an id. It is called with s.mu held.
func (s *Server) lookup(id string) (c client, known bool) {
	if c, known = s.clients[id]; known {
		return c, true
	}
	if secret, known := s.opt.Clients[id]; known {
		return client{secret: secret}, true
	}
	if key := s.opt.Keys[id]; key != nil {
		return client{key: key}, true
	}
	u, err := url.Parse(id)
	return client{}, s.opt.CIMD && err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
