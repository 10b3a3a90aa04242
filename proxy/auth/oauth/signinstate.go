package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
)

// signInID is the entry that the one sign-in of an account locks, over all processes.
func (a *Account) signInID() string { return a.id + ofSignIn }

// terminalID is the entry that dragoman login writes. Sign-ins that other processes began then end.
func (a *Account) terminalID() string { return a.id + ofTerminal }

// stored returns the record of the account. One that cannot be used counts as none: the sign-in
// replaces it.
func (a *Account) stored(ctx context.Context) (r record, err error) {
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		if r, err = load(e); errors.Is(err, ErrUnusable) {
			a.log.Warn("entry cannot be read (other key?): signing in anew", zap.String("server", a.cfg.Server), zap.Error(err))
			r, err = record{}, nil
		}
	})
	return r, errors.Join(err, locked)
}

// signInState is what processes know of each other's sign-ins to an account.
type signInState struct {
	Tab     time.Time `json:"tab"`     // when the last one was opened
	Process int       `json:"process"` // id of the process that opened it
	Done    bool      `json:"done"`    // the user has signed in there
	Steps   []step    `json:"steps,omitempty"`
}

// step is a tab for further scopes.
type step struct {
	Scopes string    `json:"scopes"`
	At     time.Time `json:"at"`
}

func readState(data []byte) (s signInState) {
	if json.Unmarshal(data, &s) != nil {
		return signInState{}
	}
	return s
}

func (s *signInState) save(e Entry) {
	if text, err := json.Marshal(s); err == nil {
		_ = e.Put(text) // the store has logged the error
	}
}

// mayOpen reports whether dragoman may open a tab by itself. Within tabPause after another one it may
// do so only for further scopes, and only if the user has finished the last sign-in.
func (s *signInState) mayOpen(now time.Time, scopes string) bool {
	s.Steps = slices.DeleteFunc(s.Steps, func(p step) bool { return now.Sub(p.At) >= stepTime })
	age := now.Sub(s.Tab)
	paused := age < 0 || age >= tabPause
	if scopes == "" {
		return paused
	}
	same := 0
	for _, p := range s.Steps {
		if p.Scopes == scopes {
			same++
		}
	}
	return same < stepsEach && len(s.Steps) < stepsAll && (paused || s.Done)
}
