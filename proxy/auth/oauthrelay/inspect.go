package oauthrelay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
)

// A Login is what a server's metadata says about how clients log in to it.
type Login struct {
	Metadata string                `json:"metadata,omitempty"` // URL of the protected resource's metadata; "" for none
	Resource string                `json:"resource,omitempty"` // the resource in the server's metadata
	Servers  []AuthorizationServer `json:"authorization_servers,omitempty"`
	Notes    []string              `json:"notes"` // what will work through the proxy, and what to change
}

// An AuthorizationServer is an authorization server that the server names, or the server
// itself.
type AuthorizationServer struct {
	Issuer   string `json:"issuer"`
	Found    bool   `json:"found"`    // it has metadata
	Dynamic  bool   `json:"dynamic"`  // it registers clients
	Document bool   `json:"document"` // it accepts the URL of a metadata document as a client id
	PKCE     bool   `json:"pkce"`     // its metadata lists S256
	Iss      bool   `json:"iss"`      // it sends iss in authorization responses
	Device   bool   `json:"device"`   // it has the device flow
	failed   error  // why its metadata could not be read
}

// serverMetadata has the members of an authorization server's metadata that are read:
// https://www.rfc-editor.org/rfc/rfc8414#section-2.
type serverMetadata struct {
	Registration string   `json:"registration_endpoint"`
	Device       string   `json:"device_authorization_endpoint"`
	PKCE         []string `json:"code_challenge_methods_supported"`
	Document     bool     `json:"client_id_metadata_document_supported"`
	Iss          bool     `json:"authorization_response_iss_parameter_supported"`
}

// Inspect reads the metadata of the server and of its authorization servers, as a client does
// after it was refused with this challenge.
func (r *Relay) Inspect(ctx context.Context, challenge []string) (*Login, error) {
	l := new(Login)
	var said resourceMetadata
	named := MetadataIn(challenge)
	if r.Rewrite && named == PublicMetadata(r.Public) { // the challenge is a rewritten one
		named = ""
	}
	document, at, passed, err := r.reader.Resource(ctx, named)
	if err != nil {
		return nil, err
	}
	issuers := []string{r.Server.Scheme + "://" + r.Server.Host}
	if document != nil && json.Unmarshal(document, &said) == nil {
		l.Metadata, l.Resource = at, said.Resource
		issuers = said.Servers[:min(len(said.Servers), maxIssued)]
	}
	if passed != "" {
		l.say("what the server's challenge names is no metadata, and clients look at the well-known places, or give up: %s", passed)
	}
	for _, issuer := range issuers {
		l.Servers = append(l.Servers, inspectServer(ctx, r.reader, issuer))
	}
	l.note(r, &said)
	return l, nil
}

// MetadataIn returns the URL of metadata in the fields of a challenge, or "" if there is
// none.
func MetadataIn(challenge []string) string {
	for _, c := range challenge {
		if _, rest, ok := strings.Cut(c, "resource_metadata="); ok {
			if rest, quoted := strings.CutPrefix(rest, `"`); quoted {
				at, _, _ := strings.Cut(rest, `"`)
				return at
			}
			return strings.FieldsFunc(rest+" ", func(r rune) bool { return r == ',' || r == ' ' })[0]
		}
	}
	return ""
}

// inspectServer reads the metadata of an authorization server.
func inspectServer(ctx context.Context, reader *oauth.MetadataReader, issuer string) AuthorizationServer {
	as := AuthorizationServer{Issuer: issuer}
	var document []byte
	var said serverMetadata
	if document, as.failed = reader.AuthorizationServer(ctx, issuer); document != nil && json.Unmarshal(document, &said) == nil {
		as.Found, as.Dynamic, as.Document, as.Iss, as.Device = true, said.Registration != "", said.Document, said.Iss, said.Device != ""
		as.PKCE = slices.Contains(said.PKCE, "S256")
	}
	return as
}

func (l *Login) say(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// note adds the notes about what will work.
func (l *Login) note(r *Relay, said *resourceMetadata) {
	server := r.Server
	apart := false
	for _, as := range l.Servers {
		if u, err := url.Parse(as.Issuer); err == nil && u.Host != server.Host {
			apart = true
		}
	}
	switch {
	case l.Metadata == "" && !l.Servers[0].Found:
		l.say("the server has no metadata: clients use /authorize, /token and /register at its origin, which dragoman serve relays")
	case l.Metadata == "":
		l.say("the server has no metadata of a protected resource: clients use the server itself as the authorization server, which dragoman serve relays")
	case r.Rewrite:
		l.say("clients are told %s in place of %s (oauth.rewrite): they can log in if the authorization server issues tokens for it, and the server accepts them", r.Public, l.Resource)
	case !Covers(l.Resource, server.String()):
		l.say("the server's metadata is for %s, but was read at %s: clients refuse that; set the server's public URL to the one that clients use, or oauth.rewrite if that is impossible and you run the server", l.Resource, server)
	default:
		l.say("clients log in through dragoman serve once the server's public URL is that of the proxy; if the server's public URL cannot be changed, use dragoman stdio, or clients that use the server's own URL")
	}
	switch {
	case l.Metadata != "" && apart && r.Copy != nil:
		l.say("clients of 2025-03-26 get a copy of the metadata of %s (oauth.old_clients); they send no resource, so it must issue tokens without one", l.Servers[0].Issuer)
	case l.Metadata != "" && apart:
		l.say("clients of 2025-03-26 look for the authorization server at the server's own origin, and do not find it; oauth.old_clients: true gives them a copy of its metadata")
	}
	for _, as := range l.Servers {
		switch {
		case as.failed != nil:
			l.say("no client can log in there: %s", as.failed)
		case !as.Found && l.Metadata != "":
			l.say("%s has no metadata: no client can log in", as.Issuer)
		case as.Found && !as.PKCE:
			l.say("%s does not say that it supports PKCE with S256: clients of 2025-11-25 and later refuse it", as.Issuer)
		}
		if as.Found && !as.Dynamic && !as.Document {
			l.say("%s registers no clients: each needs a client id that was registered before", as.Issuer)
		}
	}
	if said.DPoP || said.Bound {
		l.say("tokens are bound to a key of the client (DPoP or TLS certificate): they work through dragoman serve only if the server checks them against its public URL")
	}
}

// Covers reports whether resource is the URL known, its origin or a path above it. It ignores
// the scheme, which a proxy that ends TLS changes.
func Covers(resource, known string) bool {
	a, err := url.Parse(resource)
	b, other := url.Parse(known)
	if err != nil || other != nil || !strings.EqualFold(withoutPort(a.Host), withoutPort(b.Host)) {
		return false
	}
	above, path := strings.TrimSuffix(a.EscapedPath(), "/"), strings.TrimSuffix(b.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}

// LoginError is the error of a request that failed because the server requires a login.
type LoginError struct {
	Challenge []string // the WWW-Authenticate values of the server's 401
	Login     *Login   // what the server's metadata says; nil if it could not be read
	Err       error
}

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }
