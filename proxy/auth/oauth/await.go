package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Interactive makes the account open a browser when the server wants a sign-in, for a client
// whose user is at this machine. open shows a page; its error says that there is no browser.
func (a *Account) Interactive(open func(address string) error) { a.open = open }

// InteractiveOnDevice makes the account ask for a code, which the user types on any device, when the server wants a sign-in. The code is
// in the log, and in the error of requests that wait for it.
func (a *Account) InteractiveOnDevice() {
	a.byCode, a.open = true, func(string) error { return errors.ErrUnsupported }
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

// Awaited says what a request that needs a sign-in waits for, in words for a log; "" if no sign-in is in progress.
func (a *Account) Awaited() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch t := a.attempt; {
	case t == nil:
		return ""
	case t.opened:
		return "the user to sign in on the page that was opened in the browser"
	case t.code.Code != "":
		return "the user to type the code that the log has, on any device"
	case t.link != "":
		return "the user to sign in: no browser could be opened"
	case t.process != 0:
		return fmt.Sprintf("the user to sign in for another dragoman, process %d", t.process)
	}
	return "the authorization server, before the user can sign in"
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
		return &SignInError{Server: a.cfg.Server, Args: a.args, Open: t.opened, Link: t.link, Code: t.code, Device: a.device, Process: t.process}
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
		t.err = &noAnswerError{a.Arguments(), ""}
	}
	if t.err != nil {
		a.log.Warn("sign-in failed", zap.String("server", a.cfg.Server), zap.Error(t.err))
	} else {
		a.log.Info("signed in", zap.String("server", a.cfg.Server))
	}
}

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
	case open, a.byCode && step == "": // a code opens no tab, and is good for minutes
	case step != "" && c.err == "insufficient_scope":
		return &scopesError{server: a.cfg.Server, wants: strings.Fields(c.scope), gave: before.Scopes, signIn: true, args: a.args}
	case why != nil:
		return why
	default:
		return &SignInError{Server: a.cfg.Server, Args: a.args}
	}
	o := &opener{a, t, e, &state, step}
	by := way(inBrowser{o})
	if a.byCode {
		by = onDevice{o.showCode}
	}
	ctx, stop := a.giveWay(ctx)
	defer stop()
	if err = a.signIn(ctx, c, before, by); err != nil && context.Cause(ctx) != ctx.Err() {
		err = context.Cause(ctx)
	}
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

// opener is the browser of an attempt.
type opener struct {
	a     *Account
	t     *attempt
	e     Entry
	state *signInState
	step  string // what the tab is for, if it may come soon after another one; "" otherwise
}

// begin notes in the store that the user is asked.
func (o *opener) begin() {
	a := o.a
	o.state.Tab, o.state.Process, o.state.Done = a.now(), os.Getpid(), false
	if o.step != "" {
		o.state.Steps = append(o.state.Steps, step{o.step, a.now()})
	}
	o.state.save(o.e)
}

// showCode tells the user where to type the code.
func (o *opener) showCode(code DeviceCode) {
	o.begin()
	o.a.mu.Lock()
	o.t.code = code
	o.a.mu.Unlock()
	o.a.log.Warn("sign-in needed: open the page on any device and type the code", zap.String("server", o.a.cfg.Server), zap.String("page", code.Page), zap.String("code", code.Code))
}

// Visit implements Browser.
func (o *opener) Visit(ctx context.Context, address string, c *Callback, state string) (url.Values, error) {
	a := o.a
	o.begin()
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
	return c.Wait(ctx, state)
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

// Close cancels a sign-in that is in progress, waits closeTime at most until it has stored what it
// received, and closes idle connections.
func (a *Account) Close() {
	a.end()
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	a.Finish(ctx)
	a.web.close()
}

// maxSteps is how often one request may ask for further scopes.
const maxSteps = 2
