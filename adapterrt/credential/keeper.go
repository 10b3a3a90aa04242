package credential

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Keeper reads credentials from the places that adapter files name.
type Keeper struct {
	Getenv    func(string) (string, bool) // nil for no environment
	Now       func() time.Time
	UserAgent string
	Store     Store               // keeps OAuth tokens
	Commands  map[string][]string // by the name of an adapter: the program that prints its token, with arguments
	Run       Run                 // runs these programs; nil for those of the operating system
	Sent      secret.Known        // keeps what requests carry: of adapters, and of callers
	files     secretFiles
	flights   sync.WaitGroup
}

// Run runs a program with its arguments until it ends or ctx does, and returns what it prints on its standard output.
type Run func(ctx context.Context, command []string) ([]byte, error)

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

// valueOf returns the value of a credential. If it is missing, and missing is not nil, it returns words that say so, and adds
// them to missing.
func (s *Signer) valueOf(c file.Credential, missing *[]string) (string, *failure.Failure) {
	v, f := s.secret(c)
	if f == nil || missing == nil || f.Code != failure.AuthCredentialMissing {
		return v, f
	}
	v = "<" + f.Cause.Error() + ">"
	*missing = append(*missing, v)
	return v, nil
}

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
	value := string(plaintext.Of(b))
	s.read[path] = secretFile{st.ModTime(), st.Size(), value}
	return value, nil
}
