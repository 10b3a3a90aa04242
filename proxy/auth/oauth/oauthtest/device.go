package oauthtest

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// device answers requests for codes: https://www.rfc-editor.org/rfc/rfc8628#section-3.1
func (s *Server) device(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	o := s.options(func(c *Counts) {
		c.Devices++
		s.forms = append(s.forms, r.PostForm)
	})
	id, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := s.lookup(id)
	switch {
	case c.redirects != nil && !slices.Contains(c.grants, deviceGrant):
		refuse(w, http.StatusBadRequest, "unauthorized_client", "not registered for the device flow")
		return
	case o.NoResource && r.PostForm.Has("resource") || len(r.PostForm["resource"]) > 1:
		refuse(w, http.StatusBadRequest, "invalid_target", "unknown resource")
		return
	case o.Deny == "invalid_scope":
		refuse(w, http.StatusBadRequest, o.Deny, "unknown scope")
		return
	}
	life := cmp.Or(o.DeviceLife, 10*time.Minute)
	code, user := "canary-device-"+rand.Text(), rand.Text()[:8]
	s.devices[code] = &deviceCode{
		grant: &grant{client: id, resource: r.PostForm.Get("resource"), scopes: strings.Fields(r.PostForm.Get("scope"))},
		user:  user, expires: o.now().Add(life),
	}
	page := cmp.Or(o.DevicePage, s.Issuer+"/device")
	answer := map[string]any{
		"device_code": code, "user_code": user, "verification_uri": page, "verification_uri_complete": page + "?user_code=" + user,
		"expires_in": int(life / time.Second),
	}
	if o.DeviceInterval > 0 {
		answer["interval"] = o.DeviceInterval
	}
	writeJSON(w, http.StatusOK, answer)
}

// EnterCode enters a code as a person does on another device, and agrees or declines. It returns false if there is no
// such code.
func (s *Server) EnterCode(user string, agree bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.user == user {
			d.agreed, d.refused = agree, !agree
			return true
		}
	}
	return false
}

// byDevice returns what a person has agreed to, or an error code: https://www.rfc-editor.org/rfc/rfc8628#section-3.5. It is called
// with s.mu held.
func (s *Server) byDevice(code, client string, o Options) (g *grant, fault, why string) {
	d := s.devices[code]
	switch {
	case d == nil || d.grant.client != client || d.used:
		return nil, "invalid_grant", "unknown device_code"
	case !o.now().Before(d.expires):
		return nil, "expired_token", "the code has expired"
	case s.opt.DeviceSlow > 0:
		s.opt.DeviceSlow--
		return nil, "slow_down", ""
	case d.refused:
		return nil, "access_denied", "the person has declined"
	case !d.agreed:
		return nil, "authorization_pending", ""
	}
	d.used = true
	return d.grant, "", ""
}
