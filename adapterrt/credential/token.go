package credential

import (
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
)

const (
	tokenMargin = 30 * time.Second // a token is renewed at most this long before it expires
	retryPause  = 5 * time.Second  // after a failure, while the old token is still valid
	flightTime  = time.Minute      // the longest time that fetching one token may take
)

// token is an access token. From renew on it is to be replaced; from expires on it is invalid.
type token struct {
	text           string
	renew, expires time.Time
	further        []string // scopes beside those of the file that it was asked for
}

func newToken(text string, life time.Duration, now time.Time) token {
	end := now.Add(life)
	return token{text: text, renew: end.Add(-min(tokenMargin, life/10)), expires: end}
}

// session holds the current token of a loaded adapter.
type session struct {
	mu      sync.Mutex
	live    token
	flight  *flight  // fetches the next token; nil if none is being fetched
	further []string // scopes beside those of the file that tokens without a login are asked for
	refused []string // those that the OAuth server does not give
}

// flight fetches a token for all calls that need one meanwhile. It does not end with the call
// that began it, because the answer may contain the only refresh token that is still valid.
type flight struct {
	done    chan struct{}
	token   token
	secrets secrets
	failure *failure.Failure
}

// secrets are the texts of a request that no error and no log may show.
type secrets []string

func (k secrets) with(more ...string) secrets { return append(k[:len(k):len(k)], more...) }
