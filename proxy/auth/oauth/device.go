package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/dragoman-proxy/dragoman/oauthclient"
)

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	maxUserCode = 64
)

// SignInOnDevice signs in a user at another device, and stores the tokens: https://www.rfc-editor.org/rfc/rfc8628.
// show tells the user what to do there.
func (a *Account) SignInOnDevice(ctx context.Context, show func(DeviceCode)) error {
	return a.signInAsked(ctx, onDevice{show})
}

// HasDevice reports whether the authorization server of the last sign-in, also of one in progress, has a device flow.
func (a *Account) HasDevice() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.device
}

// onDevice asks the user to sign in on another device.
type onDevice struct{ show func(DeviceCode) }

func (d onDevice) discover(ctx context.Context, a *Account, c challenge, known string) (*authority, error) {
	at, err := a.discoverServer(ctx, c, known)
	if err == nil && at.Device == "" {
		instead := "run dragoman login "
		if a.byCode {
			instead = "leave out --login device, or " + instead
		}
		err = fmt.Errorf("AS %s has no device flow; %s%s", hostOf(at.Token), instead, a.Arguments())
	}
	return at, err
}

func (d onDevice) ask(ctx context.Context, a *Account, at *authority, before record) (record, oauthclient.Token, error) {
	r, t, err := d.askOnce(ctx, a, at, before)
	_, unknown := errors.AsType[clientError](err)
	if earlier := r.Client == before.Client || r.Client == before.Pending; unknown && earlier && r.Client.Registered {
		before.Client, before.Pending = client{}, client{}
		r, t, err = d.askOnce(ctx, a, at, before)
	}
	a.cfg.Count.token("device_code", err)
	return r, t, err
}

func (d onDevice) askOnce(ctx context.Context, a *Account, at *authority, before record) (record, oauthclient.Token, error) {
	r := a.recordOf(at, before)
	if err := a.identifyForDevice(ctx, at, &before, &r); err != nil {
		return r, oauthclient.Token{}, err
	}
	a.tried(ctx, &r, false)
	code, err := a.requestCode(ctx, &r)
	if err != nil {
		return r, oauthclient.Token{}, err
	}
	expires := a.now().Add(code.Life)
	d.show(DeviceCode{code.Page, code.Code, code.Link})
	t, err := a.poll(ctx, &r, code, expires)
	return r, t, err
}

// identifyForDevice chooses the OAuth client for the device flow, and registers it if need be, in the order of identify.
func (a *Account) identifyForDevice(ctx context.Context, at *authority, before, r *record) error {
	if c, ok := a.configured(at); ok {
		r.Client = c
		return nil
	}
	for _, c := range []client{before.Pending, before.Client} {
		if c.Device && a.stillGood(&c, at) {
			r.Client = c
			return nil
		}
	}
	if at.Registration == "" {
		return errors.New("AS registers no clients by itself: register one for the device flow and pass --oauth client_id=…")
	}
	// The redirect URI is for sign-ins in a browser, and because some authorization servers register no client without one.
	back, err := a.register(ctx, at, r, deviceGrant)
	if err != nil {
		return err
	}
	back.Close()
	r.Client.Device = true
	return nil
}

// requestCode requests a code for the user.
func (a *Account) requestCode(ctx context.Context, r *record) (code oauthclient.DeviceCode, err error) {
	host := hostOf(r.Authority.Device)
	form := url.Values{}
	setScope(form, r.Scopes)
	if r.Resource != "" {
		form.Set("resource", r.Resource)
	}
	setAll(form, a.cfg.Params)
	reply, err := a.send(ctx, &r.Authority, &r.Client, r.Authority.Device, form, nil)
	if err != nil {
		return code, failure(r.Authority.Device, err)
	}
	said, err := reply.Object()
	if refused, ok := errors.AsType[*oauthclient.Refusal](err); ok {
		return code, refusedBy(host, refused)
	}
	code = said.DeviceCode()
	a.cfg.Sent.Keep(code.Secret)
	if code.Secret == "" || len(code.Secret) > maxToken || code.Code == "" || plainWord(code.Code) != code.Code || len(code.Code) > maxUserCode {
		return code, fmt.Errorf("AS %s: the device response has no user_code or device_code that can be used", host)
	}
	if _, err := a.web.check(ctx, code.Page); err != nil {
		return code, fmt.Errorf("AS %s: verification_uri: %w", host, err)
	}
	if _, err := a.web.check(ctx, code.Link); err != nil {
		code.Link = ""
	}
	return code, nil
}

// clientError is the error of an authorization server that does not know the client.
type clientError struct{ error }

func (e clientError) Unwrap() error { return e.error }

// refusedBy returns the answer of an authorization server as an error.
func refusedBy(host string, e *oauthclient.Refusal) error {
	err := fmt.Errorf("AS %s: %w", host, said(e))
	switch e.Code {
	case "invalid_client", "unauthorized_client":
		return clientError{err}
	case errScope.Error():
		return fmt.Errorf("AS %s: refused: %w %s", host, errScope, quoted(e.Description))
	}
	return err
}

// poll requests tokens until the user has used the code.
func (a *Account) poll(ctx context.Context, r *record, code oauthclient.DeviceCode, expires time.Time) (t oauthclient.Token, err error) {
	host := hostOf(r.Authority.Token)
	var last error
	for {
		if !a.now().Add(code.Pause).Before(expires) {
			return t, &lateCodeError{a.Arguments(), last}
		}
		if err := a.sleep(ctx, code.Pause); errors.Is(err, context.DeadlineExceeded) {
			return t, &lateCodeError{a.Arguments(), last}
		} else if err != nil {
			return t, err
		}
		t, err = a.request(ctx, &r.Authority, &r.Client, r.Resource, url.Values{"grant_type": {deviceGrant}, "device_code": {code.Secret}}, nil)
		refused, answered := errors.AsType[*oauthclient.Refusal](err)
		switch {
		case err == nil:
			return t, tokenFault(r.Authority.Token, t)
		case ctx.Err() != nil: // the next pause ends at once
		case !answered: // https://www.rfc-editor.org/rfc/rfc8628#section-3.5
			last = failure(r.Authority.Token, err)
			code.Failed()
		case refused.Code == "" && refused.Status >= 500:
			last = refusedBy(host, refused)
			code.Failed()
		case refused.Code == "authorization_pending":
			last = nil
		case refused.Code == "slow_down", refused.Status == http.StatusTooManyRequests:
			last = nil
			code.Slower()
		case refused.Code == "expired_token":
			return t, &lateCodeError{a.Arguments(), nil}
		case refused.Code == "access_denied":
			return t, fmt.Errorf("AS refused: access_denied %s", quoted(refused.Description))
		default:
			return t, refusedBy(host, refused)
		}
	}
}
