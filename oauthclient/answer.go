package oauthclient

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxReply is the size of a response that is read.
const maxReply = 1 << 20

// Reply is the response of an endpoint.
type Reply struct {
	Host   string
	Status int
	body   []byte
	broken error // why there is no body

	secrets []string     // in the request
	sent    *secret.Kept // see Client
}

// Good reports whether the status is one of success.
func (r *Reply) Good() bool { return r.Status/100 == 2 }

// Object returns the JSON object of a successful response. The error is a [*Refusal], or an [Unanswered] if the status is one
// of success. Some servers send a refusal with status 200.
func (r *Reply) Object() (Object, error) {
	refused := &Refusal{Host: r.Host, Status: r.Status, why: r.broken}
	switch {
	case r.broken != nil:
	case !wire.Valid(r.body) || wire.KindOf(r.body) != wire.Object:
		refused.why = fmt.Errorf("%s answered %d without a JSON object", r.Host, r.Status)
	default:
		o := Object(r.body)
		refused.Code, refused.Description = r.said(o, "error"), r.said(o, "error_description")
		if refused.Code != "" && (!r.Good() || IsCode(refused.Code)) { // some servers say with a token that there was no error
			return nil, refused
		}
		if r.Good() {
			return o, nil
		}
	}
	if r.Good() {
		return nil, Unanswered{refused.why}
	}
	return nil, refused
}

// said returns the text of a member, which may repeat what was sent, without secrets.
func (r *Reply) said(o Object, name string) string {
	text := o.Text(name)
	if text == "" {
		return ""
	}
	return secret.Strike(text, secret.NewSet(r.secrets...), r.sent.Set())
}

// A Refusal is a response without what was requested.
type Refusal struct {
	Host              string
	Status            int
	Code, Description string // as the server has sent them, without what it was sent; "" for none
	why               error
}

// Error returns what is wrong with a response without a code, and otherwise the code and its description.
func (r *Refusal) Error() string {
	switch {
	case r.Code != "" && r.Description != "":
		return r.Host + " refused: " + r.Code + " " + strconv.Quote(r.Description)
	case r.Code != "":
		return r.Host + " refused: " + r.Code
	case r.IsRedirect():
		return fmt.Sprintf("%s answered %d, a redirect, which is not followed", r.Host, r.Status)
	case r.why != nil:
		return r.why.Error()
	}
	return fmt.Sprintf("%s answered %d without an error code", r.Host, r.Status)
}

func (r *Refusal) Unwrap() error { return r.why }

// IsCode reports whether s looks like an error code. Otherwise it might be a secret that the server echoes.
func IsCode(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && c != '.' && c != '-' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// IsRedirect reports whether the response was a redirect. None is followed, since it would send credentials elsewhere.
func (r *Refusal) IsRedirect() bool { return r.Status/100 == 3 }

// Unanswered is an error after which it is unknown whether the authorization server has processed the request.
type Unanswered struct{ Err error }

func (u Unanswered) Error() string { return u.Err.Error() }
func (u Unanswered) Unwrap() error { return u.Err }

// Object is a JSON object.
type Object []byte

// Text returns the value of a member that is a string, or "" if there is no such member.
func (o Object) Text(name string) string {
	v := wire.Member(o, name)
	if v == nil || wire.KindOf(v) != wire.String {
		return ""
	}
	return string(wire.Unquoted(v))
}

// Seconds returns the time that a member says in seconds, also as a string; 0 if it says none that is positive.
func (o Object) Seconds(name string) time.Duration {
	n, err := strconv.ParseFloat(strings.Trim(string(wire.Member(o, name)), `"`), 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return time.Duration(min(n, math.MaxInt32) * float64(time.Second))
}

// Token is the answer of a token endpoint.
type Token struct {
	Access, Refresh string
	Type            string
	Scope           string        // "" for the requested one
	Identity        string        // the ID token of OpenID Connect
	Life            time.Duration // of the access token; 0 if the server does not say
}

// Token returns the token in a successful response. The errors are those of [Reply.Object].
func (r *Reply) Token() (Token, error) {
	o, err := r.Object()
	if err != nil {
		return Token{}, err
	}
	t := Token{o.Text("access_token"), o.Text("refresh_token"), o.Text("token_type"), o.Text("scope"), o.Text("id_token"), o.Seconds("expires_in")}
	r.sent.Keep(t.Access, t.Refresh, t.Identity)
	if t.Access == "" {
		return Token{}, Unanswered{errors.New("the token endpoint answered without access_token")}
	}
	return t, nil
}

// The times of a device code: https://www.rfc-editor.org/rfc/rfc8628#section-3.5.
const (
	pollDefault = 5 * time.Second // between two requests, if the server does not say
	pollSlower  = 5 * time.Second // further time after slow_down
	pollLongest = time.Minute     // between two requests
	deviceLife  = 30 * time.Minute
)

// DeviceCode is the answer of a device authorization endpoint: https://www.rfc-editor.org/rfc/rfc8628#section-3.2.
type DeviceCode struct {
	Code, Page string        // what the user types, and where
	Link       string        // a page that has the code already; "" for none
	Secret     string        // that the client sends to the token endpoint
	Pause      time.Duration // before the next request
	Life       time.Duration
}

// DeviceCode returns the device code in an answer. Its times are bounded; its texts are as the server has sent them.
func (o Object) DeviceCode() DeviceCode {
	return DeviceCode{
		Code: o.Text("user_code"), Page: o.Text("verification_uri"), Link: o.Text("verification_uri_complete"), Secret: o.Text("device_code"),
		Pause: min(max(cmp.Or(o.Seconds("interval"), pollDefault), time.Second), pollLongest),
		Life:  min(cmp.Or(o.Seconds("expires_in"), deviceLife), deviceLife),
	}
}

// Slower sets the pause after the server has said slow_down.
func (d *DeviceCode) Slower() { d.Pause = min(d.Pause+pollSlower, pollLongest) }

// Failed sets the pause after a request without an answer.
func (d *DeviceCode) Failed() { d.Pause = min(2*d.Pause, pollLongest) }
