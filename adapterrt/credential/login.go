package credential

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// Login lets a person permit an adapter to act for them. It stores the tokens that it obtains.
type Login struct {
	Browser bool   // the person can log in with a browser on this machine
	Back    string // the redirect URL of that login, on this machine; port 0 is for any port
	Device  bool   // the person can log in on another device
	signer  *Signer
}

// Login returns the login of the adapter, or an error if its auth block has none.
func (s *Signer) Login() (*Login, error) {
	o := s.adapter.Auth.OAuth
	if o == nil || !o.HasLogin() || !o.Rotates() {
		return nil, fmt.Errorf("adapter %s has no login: only auth of type oauth with authorization_url or device_authorization_url has one, for a grant with refresh tokens", s.adapter.Name)
	}
	return &Login{o.AuthorizeURL != "", o.RedirectURL, o.DeviceURL != "", s}, nil
}

// Visit is a login in a browser.
type Visit struct {
	URL, State     string
	login          *Login
	back, verifier string
	further        []string // scopes beside those of the file
}

// Visit begins a login in a browser, with back as its redirect URL.
func (l *Login) Visit(ctx context.Context, back string) (*Visit, error) {
	s := l.signer
	o := s.adapter.Auth.OAuth
	id, f := s.secret(o.ID)
	if f != nil {
		return nil, explained(f)
	}
	v := &Visit{State: rand.Text(), login: l, back: back, verifier: oauthclient.Verifier(), further: s.furtherScopes(ctx)}
	form := &httpcall.Pairs{}
	form.Add("client_id", id)
	form.Add("redirect_uri", back)
	form.Add("state", v.State)
	s.scope(form, v.further)
	for _, p := range o.Params {
		form.Add(p.Name, p.Value)
	}
	v.URL = oauthclient.AuthorizationURL(o.AuthorizeURL, string(form.Text), v.verifier)
	return v, nil
}

// Finish takes the query of the redirect URL to which the browser returned, exchanges the code
// in it for tokens, and stores them.
func (v *Visit) Finish(ctx context.Context, brought url.Values) error {
	s := v.login.signer
	if subtle.ConstantTimeCompare([]byte(brought.Get("state")), []byte(v.State)) != 1 {
		return errors.New("the redirect of the browser belongs to another login: its state differs")
	}
	if code := brought.Get("error"); code != "" {
		z := clean.Sanitizer{}
		return &oauthclient.Refusal{Host: "the OAuth server", Code: cmp.Or(z.Clean(code, 64, nil), "unknown"), Description: z.Clean(brought.Get("error_description"), maxDescription, nil)}
	}
	code := brought.Get("code")
	if code == "" {
		return errors.New("the redirect of the browser has no code")
	}
	c, err := s.oauthClient()
	if err != nil {
		return explained(err)
	}
	form := s.form(string(file.AuthorizationCode))
	form.Add("code", code)
	form.Add("redirect_uri", v.back)
	form.Add("code_verifier", v.verifier)
	s.resource(form)
	a, err := s.ask(ctx, c, form, secrets{code, v.verifier})
	if err != nil {
		return err
	}
	return v.login.keep(ctx, c, a, v.further)
}

// Callback receives the browser's redirect after a login.
type Callback interface {
	Address() string
	// Wait returns the query of the redirect for the login with state.
	Wait(ctx context.Context, state string) (url.Values, error)
	Close()
}

// Listen opens a Callback at an http URL of this machine; port 0 is for any port.
type Listen func(redirect string) (Callback, error)

// Send sends a person to a page, with a message that explains it. It reports whether they
// agreed to go there. It returns an error if they gave no answer.
type Send func(ctx context.Context, message, page string) (agreed bool, err error)

// Through runs a whole login: it sends the user to the login page with send and stores the
// tokens. Without listen there is no redirect URL, so that only the device flow works.
func (l *Login) Through(ctx context.Context, listen Listen, send Send) error {
	name := l.signer.adapter.Name
	visit := func(message, page string) error {
		agreed, err := send(ctx, message, page)
		if err == nil && !agreed {
			err = errors.New("the user declined to log in")
		}
		return err
	}
	switch {
	case l.Browser && listen != nil:
		at, err := listen(l.Back)
		if err != nil {
			return err
		}
		defer at.Close()
		v, err := l.Visit(ctx, at.Address())
		if err != nil {
			return err
		}
		if err := visit("Adapter "+name+" needs you to log in to its API"+forScopes(v.further), v.URL); err != nil {
			return err
		}
		brought, err := at.Wait(ctx, v.State)
		if err != nil {
			return err
		}
		return v.Finish(ctx, brought)
	case l.Device:
		d, err := l.Begin(ctx)
		if err != nil {
			return err
		}
		if err := visit("Adapter "+name+" needs you to log in to its API"+forScopes(d.further)+". The code is "+d.Code, cmp.Or(d.Whole, d.URL)); err != nil {
			return err
		}
		return d.Wait(ctx)
	}
	return errors.New("the login needs a redirect URL on this machine, but there is no listener for one")
}

// forScopes says for which further scopes a login is.
func forScopes(further []string) string {
	if len(further) == 0 {
		return ""
	}
	return ", also for the scopes " + strings.Join(further, " ")
}

// explained returns the cause of err, if it has one. The cause is for the operator, whose
// configuration is wrong; err itself is for clients.
func explained(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

const maxPage = 2 << 10

// Device is a login on another device.
type Device struct {
	Code    string // the code that the person types in
	URL     string // the page on which to type it
	Whole   string // a page that contains the code already; "" for none
	Expires time.Time

	login   *Login
	code    oauthclient.DeviceCode
	further []string // scopes beside those of the file
}

// Begin begins a login on another device.
func (l *Login) Begin(ctx context.Context) (*Device, error) {
	s := l.signer
	c, err := s.oauthClient()
	if err != nil {
		return nil, explained(err)
	}
	form, further := &httpcall.Pairs{}, s.furtherScopes(ctx)
	s.scope(form, further)
	if s.adapter.Auth.OAuth.Client == file.ClientBasic {
		form.Add("client_id", c.ID) // https://www.rfc-editor.org/rfc/rfc8628#section-3.1
	}
	var o oauthclient.Object
	r, known, err := s.send(ctx, s.adapter.Auth.OAuth.DeviceURL, c, form, nil)
	if err == nil {
		o, err = r.Object()
	}
	if err != nil {
		return nil, cleaned(err, known)
	}
	code := o.DeviceCode()
	if !isPage(code.Link) {
		code.Link = ""
	}
	if code.Code == "" || len(code.Code) > 64 || code.Secret == "" || !isPage(code.Page) {
		return nil, errors.New("the OAuth server answered without a valid user_code, device_code or verification_uri")
	}
	return &Device{code.Code, code.Page, code.Link, s.keeper.Now().Add(code.Life), l, code, further}, nil
}

// isPage reports whether s is a page that a person can be sent to.
func isPage(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= maxPage && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http")
}

// Wait waits until the person has agreed, and stores the tokens.
func (d *Device) Wait(ctx context.Context) error {
	s := d.login.signer
	c, err := s.oauthClient()
	if err != nil {
		return explained(err)
	}
	last := errors.New("the code was not entered in time")
	for s.keeper.Now().Before(d.Expires) {
		select {
		case <-time.After(d.code.Pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		form := s.form("urn:ietf:params:oauth:grant-type:device_code")
		form.Add("device_code", d.code.Secret)
		if s.adapter.Auth.OAuth.Client == file.ClientBasic {
			form.Add("client_id", c.ID)
		}
		a, err := s.ask(ctx, c, form, secrets{d.code.Secret})
		switch code := codeOf(err); {
		case err == nil:
			return d.login.keep(ctx, c, a, d.further)
		case code == "":
			last = err // the server may be back before the code ends
			d.code.Failed()
		case code == "slow_down":
			d.code.Slower()
		case code != "authorization_pending":
			return err
		}
	}
	return last
}

// keep stores the tokens of a login in place of the earlier ones. further are the scopes beside those of the file that it asked for.
func (l *Login) keep(ctx context.Context, c client, a oauthclient.Token, further []string) (err error) {
	s := l.signer
	locked := s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) {
		was, _ := readRecord(e) // a record that cannot be read is replaced
		r := record{Seed: was.Seed, Further: further, Wanted: slices.DeleteFunc(was.Wanted, func(s string) bool { return slices.Contains(further, s) })}
		if seed, f := s.secret(s.adapter.Auth.OAuth.Refresh); f == nil {
			r.Seed = hashed(seed)
		}
		r.take(a, s.keeper.Now())
		r.For = s.wants()
		err = r.put(e)
	})
	if err = errors.Join(locked, err); err != nil {
		return fmt.Errorf("logged in, but the tokens cannot be stored: %w", err)
	}
	s.forget()
	return nil
}
