package oauth

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// A record is what is stored of an account.
type record struct {
	Server   string `json:"server"`
	Profile  string `json:"profile,omitempty"`
	Resource string `json:"resource,omitempty"`

	Authority serverMetadata `json:"authorization_server"`
	Named     string         `json:"server_resource,omitempty"` // the resource in the server's metadata
	Client    client         `json:"client"`
	Pending   client         `json:"pending,omitzero"` // of a sign-in that began while there are tokens of Client
	Scopes    []string       `json:"scopes,omitempty"` // granted
	Wanted    []string       `json:"wanted,omitempty"` // that the server has asked for in refusals
	Login     string         `json:"login,omitempty"`  // another one for each sign-in
	Subject   string         `json:"sub,omitempty"`    // the user, as tokens say; not verified

	Access  string    `json:"access_token,omitempty"`
	Refresh string    `json:"refresh_token,omitempty"`
	Got     time.Time `json:"got,omitzero"`
	Expires time.Time `json:"expires,omitzero"`

	// Sent says that Refresh was sent and no answer was read: the server may have replaced it,
	// and may end the sign-in if it comes again. See due.
	Sent bool `json:"sent,omitempty"`
	// Ended is why the authorization server has ended the sign-in.
	Ended string `json:"ended,omitempty"`
}

// A client is dragoman's registration at an authorization server.
type client struct {
	ID            string    `json:"id"`
	Issuer        string    `json:"issuer"` // the authorization server's
	Secret        string    `json:"secret,omitempty"`
	SecretExpires time.Time `json:"secret_expires,omitzero"`
	Method        string    `json:"auth_method,omitempty"` // token_endpoint_auth_method
	Redirect      string    `json:"redirect_uri,omitempty"`
	Registered    bool      `json:"registered,omitempty"` // by dragoman itself
	Name          string    `json:"name,omitempty"`       // under which it is registered; "" for dragoman
	Device        bool      `json:"device,omitempty"`     // also for sign-ins on another device

	// Tried says that the browser was sent to the authorization server with this client id and did
	// not return: the server may have forgotten the client, and then shows an error to the user.
	Tried bool `json:"tried,omitempty"`
}

// renewMargin is the longest time before its end at which a token is renewed.
const renewMargin = 30 * time.Second

// due reports whether the access token is to be renewed, over whether it has expired.
//
// A refresh token that was sent before, without an answer, is sent again only when the access token is of no use any
// more: it has expired, or the server has refused it. Then there is nothing to lose. If the lost answer held new
// tokens, the sign-in has ended with it, and the authorization server says so. If the request did not reach it, as
// when a process is killed or a connection breaks on the way, the sign-in goes on.
func (r *record) due(now time.Time) bool {
	if r.Sent {
		return r.Access == "" || r.over(now)
	}
	return r.Access == "" || !r.Expires.IsZero() && !now.Before(r.Expires.Add(-min(renewMargin, r.Expires.Sub(r.Got)/10)))
}

func (r *record) over(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

// load reads the record of an account, an empty one if there is none.
func load(e Entry) (r record, err error) {
	data, err := e.Get()
	if err != nil || data == nil {
		return r, err
	}
	if json.Unmarshal(data, &r) != nil {
		return record{}, fmt.Errorf("%w: the record of the account is damaged", ErrUnusable)
	}
	return r, nil
}

func save(e Entry, r *record) {
	data, err := json.Marshal(r)
	if err == nil {
		_ = e.Put(data) // the store has logged the error and keeps data in memory
	}
}

// take makes a token response the record's.
func (r *record) take(t oauthclient.Token, now time.Time) {
	r.Access, r.Got, r.Expires, r.Sent, r.Ended = t.Access, now, expiry(t, now), false, ""
	r.Refresh = cmp.Or(t.Refresh, r.Refresh)
	for _, token := range []string{r.Access, t.Identity} {
		var claims struct {
			Subject string `json:"sub"`
		}
		if readClaims(token, &claims); claims.Subject != "" {
			r.Subject = plainWord(claims.Subject)
		}
	}
	if t.Scope != "" {
		r.Scopes = strings.Fields(t.Scope)
	}
}

// expiry returns when a token expires that was received now; zero if that is not known.
func expiry(t oauthclient.Token, now time.Time) time.Time {
	if t.Life == 0 {
		return time.Time{}
	}
	return now.Add(t.Life)
}

// readClaims reads what a token says of itself, if it is a JWT. It is not verified.
func readClaims(token string, into any) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, into)
		}
	}
}

// audienceOf returns the audience of an access token: the aud of a JWT, which is not verified, else
// the resource in the token request.
func audienceOf(r *record) string {
	var claims struct {
		Audience any `json:"aud"`
	}
	readClaims(r.Access, &claims)
	var all []string
	switch aud := claims.Audience.(type) {
	case string:
		all = []string{aud}
	case []any:
		for _, a := range aud {
			all = append(all, fmt.Sprint(a))
		}
	}
	switch {
	case len(all) > 0:
		return plainWord(strings.Join(all, " "))
	case r.Resource != "":
		return r.Resource
	}
	return "no resource"
}
