package credential

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// failed returns the failure for a token that could not be obtained.
func (s *Signer) failed(err error) *failure.Failure {
	if f := (*failure.Failure)(nil); errors.As(err, &f) {
		return f // its message is more precise
	}
	return &failure.Failure{
		Code: failure.AuthTokenFailed, Own: true, Cause: err,
		Message: "Token for adapter '" + s.adapter.Name + "' could not be obtained",
		Details: s.details(err).End(),
	}
}

// details returns the name of the adapter and the OAuth server's error, if err is one.
func (s *Signer) details(err error) wire.Members {
	d := wire.Members(nil).Str("adapter", s.adapter.Name)
	if r, ok := errors.AsType[*oauthclient.Refusal](err); ok && r.Code != "" {
		said := wire.Members(nil).Str("error", r.Code)
		if r.Description != "" {
			said = said.Str("error_description", r.Description)
		}
		d = d.Raw("oauth_error", said.End())
	}
	return d
}

// loginRequired returns the failure for a token that only a person can obtain, and says why.
func (s *Signer) loginRequired(why error) *failure.Failure {
	o, name := s.adapter.Auth.OAuth, s.adapter.Name
	d := s.details(why)
	what := "put a new refresh token into " + o.Refresh.String()
	if o.HasLogin() {
		command := "dragoman adapter login " + name
		what = "run: " + command
		d = d.Str("login", command)
	}
	return &failure.Failure{
		Code: failure.AuthLoginRequired, Own: true, Cause: fmt.Errorf("%w; %s", why, what),
		Message: "Adapter '" + name + "' needs a new login by its operator",
		Details: d.End(),
	}
}
