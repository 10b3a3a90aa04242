package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// secretFiles remembers secrets read from files until the files change.
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
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
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

// Keeper finds credentials where files say that they are.
type Keeper struct {
	Getenv    func(string) (string, bool) // nil for no environment
	Now       func() time.Time
	UserAgent string
	Store     Store // of OAuth tokens
	files     secretFiles
	flights   sync.WaitGroup
}

// NewKeeper is a Keeper; store is nil to keep tokens in this process alone.
func NewKeeper(store Store) *Keeper {
	if store == nil {
		store = &memory{all: map[string]*memoryEntry{}}
	}
	return &Keeper{Store: store, Now: time.Now}
}

// Wait waits until no token is being fetched any more.
func (k *Keeper) Wait() { k.flights.Wait() }

// Signer adds an adapter's credentials to its requests.
type Signer struct {
	keeper  *Keeper
	adapter *file.Adapter
	client  doer // asks for tokens
	oauth   *session
}

// doer is what tokens are fetched with.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// NewSigner is for one adapter. Its client is set before it signs anything.
func NewSigner(k *Keeper, a *file.Adapter) *Signer {
	return &Signer{keeper: k, adapter: a, oauth: newSession(a)}
}

// UseClient makes the signer ask for tokens with d.
func (s *Signer) UseClient(d doer) { s.client = d }

// secret is the value of a credential.
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
				Code: failure.AuthInvalid, Own: true, Cause: fmt.Errorf("credential %v holds control characters", c),
				Message: "Credential for adapter '" + a.Name + "' is not usable",
				Details: wire.Members(nil).Str("adapter", a.Name).End(),
			}
		}
	}
	return v, nil
}

// Authorize adds the adapter's credentials to o.
func (s *Signer) Authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	au := &s.adapter.Auth
	switch au.Kind {
	case file.AuthNone:
		return nil
	case file.AuthOAuth:
		token, secrets, f := s.token(ctx, "")
		if f != nil {
			return f
		}
		o.Secrets = append(o.Secrets, secrets...)
		o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + token})
		return nil
	}
	v, f := s.secret(au.Value)
	if f != nil {
		return f
	}
	o.Secrets = append(o.Secrets, v)
	switch {
	case au.Kind == file.AuthBasic:
		user, f := s.secret(au.User)
		if f != nil {
			return f
		}
		v = base64.StdEncoding.EncodeToString([]byte(user + ":" + v))
		o.Secrets = append(o.Secrets, v)
		o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: "Basic " + v})
	case au.Query != "":
		o.URL.Add(au.Query, v)
		o.Secrets = append(o.Secrets, string(escape.AppendQuery(nil, v)))
	default:
		o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + v})
	}
	return nil
}
