package oauth

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/zalando/go-keyring"
)

const (
	keyringService = "dragoman"
	keyringUser    = "credentials"
	keyringWait    = 5 * time.Second // the keyring may ask the user for a password
	keyBytes       = 32
)

// sealer has the key of the files after the keyring has returned it.
type sealer struct {
	wait time.Duration // for the keyring's answer; 0 for keyringWait

	mu     sync.Mutex
	aead   cipher.AEAD
	asking chan keyAnswer // receives the keyring's answer; nil if no request is pending
}

// errLocked says that there is a keyring whose key cannot be had before a person unlocks it.
var errLocked = errors.New("keyring locked")

type keyAnswer struct {
	key []byte
	err error
}

// get returns the cipher with the keyring's key, which it makes if there is none. The
// keyring does not hold the tokens themselves, because they do not fit into every
// keyring.
func (s *sealer) get(dir string) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aead != nil {
		return s.aead, nil
	}
	if !mayHaveKeyring() {
		return nil, errors.New("this session has no keyring")
	}
	limit, wait := cmp.Or(s.wait, keyringWait), time.Duration(0)
	if s.asking == nil {
		wait, s.asking = limit, make(chan keyAnswer, 1)
		go func(answered chan<- keyAnswer) { // the library has no time limit
			key, err := keyOf(dir)
			answered <- keyAnswer{key, err}
		}(s.asking)
	}
	select {
	case a := <-s.asking:
		s.asking = nil
		if a.err != nil {
			return nil, a.err
		}
		block, err := aes.NewCipher(a.key)
		if err != nil {
			return nil, err
		}
		s.aead, err = cipher.NewGCMWithRandomNonce(block)
		return s.aead, err
	case <-time.After(wait):
		return nil, fmt.Errorf("%w: no answer within %v", errLocked, limit)
	}
}

// keyOf reads the key, or makes it under a lock, so that all processes have the same
// key.
func keyOf(dir string) ([]byte, error) {
	text, err := keyring.Get(keyringService, keyringUser)
	if errors.Is(err, keyring.ErrNotFound) {
		l := flock.New(filepath.Join(dir, "keyring.lock"), flock.SetPermissions(0o600))
		if err := l.Lock(); err != nil {
			return nil, err
		}
		defer l.Close()
		if text, err = keyring.Get(keyringService, keyringUser); errors.Is(err, keyring.ErrNotFound) {
			fresh := make([]byte, keyBytes)
			rand.Read(fresh)
			text = base64.StdEncoding.EncodeToString(fresh)
			err = keyring.Set(keyringService, keyringUser, text)
		}
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "failed to unlock"): // the person has closed the keyring's question
		return nil, fmt.Errorf("%w: %w", errLocked, err)
	case err != nil:
		return nil, fmt.Errorf("keyring: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("the keyring's entry %q of %q is not a key of dragoman: remove it and log in again", keyringUser, keyringService)
	}
	return key, nil
}

// mayHaveKeyring reports whether the library can be asked. It returns false if the
// library would start a message bus for it.
func mayHaveKeyring() bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return true
	}
	if at := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); at != "" {
		return at != "autolaunch:"
	}
	run := fmt.Sprintf("/run/user/%d", os.Getuid())
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join(run, name)); err == nil {
			return true
		}
	}
	return false
}
