package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

const (
	signInTime = 10 * time.Minute // for the user to sign in
	tabPause   = 10 * time.Minute // between two tabs that dragoman opens by itself
	signInWait = 25 * time.Second // how long a request waits for a sign-in: clients have timeouts of 30 s and more
	signInPoll = 500 * time.Millisecond

	stepTime  = time.Hour
	stepsEach = 3  // tabs within stepTime for the same scopes
	stepsAll  = 12 // tabs within stepTime for whatever scopes
	maxScopes = 64 // of an account
)

// Interactive makes the account open a browser when the server wants a sign-in, for a client
// whose user is at this machine. open shows a page; its error says that there is no browser.
func (a *Account) Interactive(open func(address string) error) { a.open = open }

// attempt is a sign-in that requests wait for.
type attempt struct {
	done chan struct{} // closed when it has ended
	err  error

	// The rest is guarded by the account's lock.
	opened  bool   // a browser shows the sign-in page
	link    string // URL of the sign-in page, if no browser could be opened
	process int    // id of another process that waits for the user; 0 for none
}

// Finish waits until no sign-in is in progress, or until ctx ends.
func (a *Account) Finish(ctx context.Context) {
	a.mu.Lock()
	t := a.attempt
	a.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	}
}

// await waits for a sign-in in the browser, which it begins if none is in progress. A nil
// error says that there are tokens. why says why the last sign-in cannot be used any more; nil if
// there was none.
func (a *Account) await(ctx context.Context, refused string, c challenge, why error) error {
	a.mu.Lock()
	t := a.attempt
	if t == nil {
		t = &attempt{done: make(chan struct{})}
		a.attempt = t
		go a.try(t, refused, c, why)
	}
	a.mu.Unlock()
	wait := time.NewTimer(a.wait)
	defer wait.Stop()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		a.mu.Lock()
		defer a.mu.Unlock()
		return &SignInError{Server: a.cfg.Server, Args: a.args, Open: t.opened, Link: t.link, Device: a.device, Process: t.process}
	}
}

// try signs in, and ends the attempt.
func (a *Account) try(t *attempt, refused string, c challenge, why error) {
	defer func() {
		if p := recover(); p != nil {
			t.err = errors.New("the sign-in failed: internal error")
			a.log.Error("sign-in panicked", zap.String("server", a.cfg.Server), zap.Stack("stack"))
		}
		a.mu.Lock()
		a.attempt = nil
		a.mu.Unlock()
		close(t.done)
	}()
	ctx, stop := context.WithTimeout(a.life, signInTime)
	defer stop()
	for {
		turn, end := context.WithTimeout(ctx, 2*signInPoll)
		locked := a.store.Locked(turn, a.signInID(), func(e Entry) {
			end()
			t.err = a.trial(ctx, t, e, refused, c, why)
		})
		end()
		if locked == nil {
			break
		}
		if t.err = ctx.Err(); t.err != nil {
			break
		}
		if !errors.Is(locked, context.DeadlineExceeded) {
			t.err = locked
			break
		}
		a.mu.Lock()
		t.process = readState(a.store.peek(a.signInID())).Process
		a.mu.Unlock()
	}
	switch {
	case a.life.Err() != nil:
		t.err = errors.New("the sign-in was cancelled: dragoman is stopping")
	case errors.Is(t.err, context.DeadlineExceeded):
		t.err = &noAnswerError{a.cfg.Server + a.args}
	}
	if t.err != nil {
		a.log.Warn("sign-in failed", zap.String("server", a.cfg.Server), zap.Error(t.err))
	} else {
		a.log.Info("signed in", zap.String("server", a.cfg.Server))
	}
}

// signInID is the entry that the one sign-in of an account locks, over all processes.
func (a *Account) signInID() string { return a.id + "\nsign-in" }

// terminalID is the entry that dragoman login writes. Sign-ins that other processes began then end.
func (a *Account) terminalID() string { return a.id + "\nterminal" }

// trial signs in while no other process does.
func (a *Account) trial(ctx context.Context, t *attempt, e Entry, refused string, c challenge, why error) error {
	before, err := a.stored(ctx)
	if err != nil {
		return err
	}
	if before.Access != "" && "Bearer "+before.Access != refused { // another process has signed in
		return nil
	}
	data, _ := e.Get()
	state, step := readState(data), ""
	if c.err == "insufficient_scope" {
		step = strings.Join(slices.Sorted(slices.Values(strings.Fields(c.scope))), " ")
	}
	open := state.mayOpen(a.now(), step)
	if !open && step == "" && state.Done {
		if moved := a.movedTo(ctx, c, &before); moved != "" {
			step = "issuer " + moved
			open = state.mayOpen(a.now(), step)
		}
	}
	switch {
	case open:
	case step != "" && c.err == "insufficient_scope":
		return &scopesError{server: a.cfg.Server, wants: strings.Fields(c.scope), gave: before.Scopes, signIn: true, args: a.args}
	case why != nil:
		return why
	default:
		return &SignInError{Server: a.cfg.Server, Args: a.args}
	}
	err = a.signIn(ctx, c, before, inBrowser{&opener{a, t, e, &state, step}})
	if a.cfg.Count.login(err); err == nil && !state.Tab.IsZero() {
		state.Done = true
		state.save(e)
	}
	return err
}

// movedTo returns the issuer that the server's metadata names now, if it is another one than that of r; "" if
// it is not, or cannot be known.
func (a *Account) movedTo(ctx context.Context, c challenge, r *record) string {
	at, err := a.find(ctx, c, r.Authority.Issuer)
	if err != nil || at.guessed || r.Authority.Issuer == "" || at.Issuer == r.Authority.Issuer {
		return ""
	}
	return at.Issuer
}

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

// opener is the browser of an attempt.
type opener struct {
	a     *Account
	t     *attempt
	e     Entry
	state *signInState
	step  string // what the tab is for, if it may come soon after another one; "" otherwise
}

// Visit implements Browser.
func (o *opener) Visit(ctx context.Context, address string, c *Callback, state string) (url.Values, error) {
	a := o.a
	o.state.Tab, o.state.Process, o.state.Done = a.now(), os.Getpid(), false
	if o.step != "" {
		o.state.Steps = append(o.state.Steps, step{o.step, a.now()})
	}
	o.state.save(o.e)
	ctx, stop := a.giveWay(ctx)
	defer stop()
	err := a.open(address)
	a.mu.Lock()
	o.t.opened = err == nil
	if err != nil {
		o.t.link = address
	}
	a.mu.Unlock()
	if err != nil { // without the address, which holds the state of the sign-in
		a.log.Warn("sign-in needed, and no browser could be opened: run dragoman login", zap.String("server", a.cfg.Server), zap.Error(err))
	}
	q, err := c.Wait(ctx, state)
	if ctx.Err() != nil && context.Cause(ctx) != ctx.Err() {
		err = context.Cause(ctx)
	}
	return q, err
}

// giveWay returns a context that ends when dragoman login begins a sign-in to the same account.
func (a *Account) giveWay(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	before := string(a.store.peek(a.terminalID()))
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(signInPoll):
			}
			if string(a.store.peek(a.terminalID())) != before {
				end(&SignInError{Server: a.cfg.Server, Args: a.args})
				return
			}
		}
	}()
	return ctx, func() { end(nil) }
}

// stepUp handles the refusal of a token that lacks scopes.
func (a *Account) stepUp(ctx context.Context, value string, c challenge, tries int) error {
	wants := strings.Fields(c.scope)
	refused := func(r record, signIn bool) error {
		return &scopesError{server: a.cfg.Server, wants: wants, gave: r.Scopes, signIn: signIn, args: a.args}
	}
	var r record
	var err error
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		if r, err = load(e); err != nil || r.Access == "" {
			return
		}
		if all := union(r.Wanted, wants); len(all) > len(r.Wanted) && len(all) <= maxScopes {
			r.Wanted = all
			save(e, &r)
		}
	})
	if err := errors.Join(locked, err); err != nil {
		return err
	}
	a.mu.Lock()
	a.live = r
	a.mu.Unlock()
	switch {
	case r.Access != "" && "Bearer "+r.Access != value:
		return nil
	case containsAll(r.Scopes, wants), tries >= maxSteps, len(wants) > maxScopes:
		return refused(r, false)
	case a.open == nil:
		return refused(r, true)
	}
	if err := a.await(ctx, value, c, nil); err != nil {
		return err
	}
	a.mu.Lock()
	r = a.live
	a.mu.Unlock()
	if !containsAll(r.Scopes, wants) {
		return refused(r, false)
	}
	return nil
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}
