package credential

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// secretFiles caches secrets from files until the files change.
type secretFiles struct {
	mu   sync.Mutex
	read map[string]secretFile
}

type secretFile struct {
	changed time.Time
	size    int64
	value   string
}

const maxSecret = 64 << 10

func (s *secretFiles) get(path string) (string, error) {
	f, st, err := file.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.read[path]; ok && r.changed.Equal(st.ModTime()) && r.size == st.Size() {
		return r.value, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("larger than %d bytes", maxSecret)
	}
	if s.read == nil {
		s.read = map[string]secretFile{}
	}
	s.read[path] = secretFile{st.ModTime(), st.Size(), string(b)}
	return string(b), nil
}

// Keeper reads credentials from the places that adapter files name.
type Keeper struct {
	Getenv    func(string) (string, bool) // nil for no environment
	Now       func() time.Time
	UserAgent string
	Store     Store               // keeps OAuth tokens
	Commands  map[string][]string // by the name of an adapter: the program that prints its token, with arguments
	files     secretFiles
	flights   sync.WaitGroup
}

// NewKeeper returns a Keeper. If store is nil, it keeps tokens in this process only.
func NewKeeper(store Store) *Keeper {
	if store == nil {
		store = &memory{all: map[string]*memoryEntry{}}
	}
	return &Keeper{Store: store, Now: time.Now}
}

// Wait waits until no token request is in flight.
func (k *Keeper) Wait() { k.flights.Wait() }

// Signer adds an adapter's credentials to its requests.
type Signer struct {
	keeper  *Keeper
	adapter *file.Adapter
	client  doer     // sends token requests
	command []string // the program that prints tokens, with arguments; nil for none
	session *session // the current token; nil for an adapter whose credentials do not change
}

// doer is the HTTP client for token requests.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// NewSigner returns a Signer for one adapter. The caller must call UseClient before the
// Signer signs a request.
func NewSigner(k *Keeper, a *file.Adapter) *Signer {
	s := &Signer{keeper: k, adapter: a, command: k.Commands[a.Name]}
	if a.Auth.OAuth != nil || s.command != nil {
		s.session = &session{}
	}
	return s
}

// UseClient makes the signer send its token requests with d.
func (s *Signer) UseClient(d doer) { s.client = d }

// secret returns the value of a credential.
func (s *Signer) secret(c file.Credential) (string, *failure.Failure) {
	a, k := s.adapter, s.keeper
	var v string
	var cause error
	if c.File != "" {
		v, cause = k.files.get(c.File)
	} else if k.Getenv != nil {
		v, _ = k.Getenv(c.Env)
	}
	if v = strings.TrimRight(v, "\r\n"); strings.TrimSpace(v) == "" {
		if cause == nil {
			cause = fmt.Errorf("credential %v is not set", c)
		}
		return "", &failure.Failure{
			Code: failure.AuthCredentialMissing, Own: true, Cause: cause,
			Message: "Credential for adapter '" + a.Name + "' is not configured",
			Details: wire.Members(nil).Str("adapter", a.Name).End(),
		}
	}
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			return "", &failure.Failure{
				Code: failure.AuthInvalid, Own: true, Cause: fmt.Errorf("credential %v contains control characters", c),
				Message: "Credential for adapter '" + a.Name + "' is not usable",
				Details: wire.Members(nil).Str("adapter", a.Name).End(),
			}
		}
	}
	return v, nil
}

// Authorize adds the adapter's credentials to o.
func (s *Signer) Authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	if s.session == nil {
		return s.sign(o)
	}
	au := &s.adapter.Auth
	token, secrets, f := s.token(ctx, "")
	if f != nil {
		return f
	}
	o.Secrets = append(o.Secrets, secrets...)
	o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + token})
	return s.sign(o)
}

// Sketch does what Authorize does, for a request that is only shown and not sent: it adds
// "..." in place of a token and requests none.
func (s *Signer) Sketch(o *httpcall.Outgoing) *failure.Failure {
	if au := &s.adapter.Auth; s.session != nil || au.AWS != nil {
		o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + "..."})
	}
	return s.sign(o)
}

// Renews reports whether the signer can replace a token that the API refuses.
func (s *Signer) Renews() bool { return s.session != nil }

// sign adds the credentials that are not tokens.
func (s *Signer) sign(o *httpcall.Outgoing) *failure.Failure {
	au := &s.adapter.Auth
	if s.session == nil {
		if f := s.add(o, &au.Scheme); f != nil {
			return f
		}
	}
	for i := range au.Also {
		if f := s.add(o, &au.Also[i]); f != nil {
			return f
		}
	}
	return nil
}

func (s *Signer) add(o *httpcall.Outgoing, k *file.Scheme) *failure.Failure {
	switch k.Kind {
	case file.AuthNone:
		return nil
	case file.AuthAWS:
		return s.signAWS(o, s.adapter.Auth.AWS)
	}
	v, f := s.secret(k.Value)
	if f != nil {
		return f
	}
	o.Secrets = append(o.Secrets, v)
	switch {
	case k.Kind == file.AuthBasic:
		user, f := s.secret(k.User)
		if f != nil {
			return f
		}
		v = base64.StdEncoding.EncodeToString([]byte(user + ":" + v))
		o.Secrets = append(o.Secrets, v)
		o.Headers = append(o.Headers, file.Header{Name: k.Header, Value: "Basic " + v})
	case k.Query != "":
		o.URL.Add(k.Query, v)
		o.Secrets = append(o.Secrets, string(escape.AppendQuery(nil, v)))
	default:
		o.Headers = append(o.Headers, file.Header{Name: k.Header, Value: k.Prefix + v})
	}
	return nil
}

// maxOwn is the largest number of bytes of a caller's credential.
const maxOwn = 16 << 10

// Present adds the caller's own credential to o, in place of the adapter's. Keys that the API
// needs in addition, and that the caller does not send, are the adapter's.
func (s *Signer) Present(o *httpcall.Outgoing, own []file.Header) *failure.Failure {
	au := &s.adapter.Auth
	for _, h := range own {
		v := strings.TrimSpace(h.Value)
		if len(v) > maxOwn || !file.IsHeaderValue(v) {
			return &failure.Failure{
				Code: failure.AuthInvalid, Message: "Your credential for adapter '" + s.adapter.Name + "' is not usable: it is too long or contains control characters",
				Details: wire.Members(nil).Str("adapter", s.adapter.Name).End(), Caller: true,
			}
		}
		o.Secrets = append(o.Secrets, v)
		for _, scheme := range au.Schemes() {
			if scheme.Prefix == "" || !strings.EqualFold(scheme.Header, h.Name) {
				continue
			}
			if bare, has := cutPrefixFold(v, scheme.Prefix); has {
				o.Secrets = append(o.Secrets, bare)
			} else if !strings.Contains(v, " ") { // not with another scheme in front
				v = scheme.Prefix + v
			}
		}
		if _, bare, ok := strings.Cut(v, " "); ok && strings.TrimSpace(bare) != "" {
			o.Secrets = append(o.Secrets, strings.TrimSpace(bare))
		}
		o.Headers = append(o.Headers, file.Header{Name: h.Name, Value: v})
	}
	for i := range au.Also {
		k := &au.Also[i]
		if slices.ContainsFunc(own, func(h file.Header) bool { return strings.EqualFold(h.Name, k.Header) }) {
			continue
		}
		if f := s.add(o, k); f != nil {
			return f
		}
	}
	return nil
}

// cutPrefixFold is strings.CutPrefix without regard to case.
func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
