package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// plainWord returns text as quoted does, without the quotation marks.
func plainWord(code string) string { return strings.Trim(quoted(code), `"`) }

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return quoted(at)
	}
	return u.Host
}

// failure returns the error of a request to a URL of an authorization server.
func failure(at string, err error) error {
	if refused, answered := errors.AsType[*oauthclient.Refusal](err); answered {
		err = said(refused)
	}
	return fmt.Errorf("AS %s: %w", hostOf(at), oauthclient.WithoutURL(err))
}

// said returns the answer of an authorization server as an error.
func said(e *oauthclient.Refusal) error {
	switch {
	case e.Code == "" && e.IsRedirect():
		return fmt.Errorf("answered %d, a redirect, which is not followed", e.Status)
	case e.Code == "":
		return fmt.Errorf("answered %d", e.Status)
	}
	return fmt.Errorf("refused: %s", refusal(e.Code, e.Description))
}

// refusal returns an error code and its description for people, and what to do if the authorization server does not take
// the resource, which Entra ID says in the description only.
func refusal(code, description string) string {
	text := plainWord(code) + " " + quoted(description)
	if code == "invalid_target" || strings.Contains(description, "AADSTS9010010") {
		text += "; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none"
	}
	return text
}

// canonical returns the form in which a server's URL is sent as resource and kept: scheme and
// host in lower case, no fragment.
func canonical(u *url.URL) string {
	c := *u
	c.Scheme, c.Host, c.Fragment, c.User = strings.ToLower(u.Scheme), strings.ToLower(u.Host), "", nil
	return c.String()
}

// originOf returns scheme and host of a URL.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }
