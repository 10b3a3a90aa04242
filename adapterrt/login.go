package adapterrt

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// loginTime is how long a call waits for a person to log in.
const loginTime = 5 * time.Minute

// loggedIn asks the user to log in and then sends the request of the call. f is the
// failure that says that the call needs a login. Only one call of an adapter asks the
// user at a time.
func (c *call) loggedIn(ctx context.Context, rt *Runtime, r *Result, f *failure.Failure) (*httpcall.Reply, *failure.Failure) {
	l, err := c.a.signer.Login()
	if err != nil {
		return nil, f
	}
	start := rt.opt.Now()
	defer func() { c.asked += rt.opt.Now().Sub(start) }()
	ctx, stop := context.WithTimeout(ctx, loginTime)
	defer stop()
	select {
	case c.a.login <- struct{}{}:
		defer func() { <-c.a.login }()
	case <-ctx.Done():
		return nil, f
	}
	if answer, f := c.try(ctx, rt, r); f == nil || f.Code != failure.AuthLoginRequired {
		return answer, f // the user has logged in for another call
	}
	if err := l.Through(ctx, rt.opt.Listen, c.send); err != nil {
		own := *f // other calls share f
		own.Cause = fmt.Errorf("%w; %w", f.Cause, err)
		return nil, &own
	}
	return c.try(ctx, rt, r)
}
