package callctx

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

var errWhy = errors.New("why")

type valueKey struct{}

// TestDerivedContextsEnd, with the cause, whether they were made before the end or after it.
func TestDerivedContextsEnd(t *testing.T) {
	derive := map[string]func(context.Context) (context.Context, func()){
		"itself": func(c context.Context) (context.Context, func()) { return c, func() {} },
		"value": func(c context.Context) (context.Context, func()) {
			return context.WithValue(c, valueKey{}, 1), func() {}
		},
		"own value": func(c context.Context) (context.Context, func()) { return WithValue(c, valueKey{}, 1), func() {} },
		"under own value": func(c context.Context) (context.Context, func()) {
			u := Under(WithValue(c, valueKey{}, 1))
			return u, func() { u.End(nil) }
		},
		"cancel under own value": func(c context.Context) (context.Context, func()) {
			c, end := context.WithCancel(WithValue(c, valueKey{}, 1))
			return c, end
		},
		"cancel": func(c context.Context) (context.Context, func()) { c, end := context.WithCancel(c); return c, end },
		"timeout": func(c context.Context) (context.Context, func()) {
			c, end := context.WithTimeout(c, time.Hour)
			return c, end
		},
		"under": func(c context.Context) (context.Context, func()) { u := Under(c); return u, func() { u.End(nil) } },
		"under value": func(c context.Context) (context.Context, func()) {
			u := Under(context.WithValue(c, valueKey{}, 1))
			return u, func() { u.End(nil) }
		},
		"timeout under": func(c context.Context) (context.Context, func()) {
			u := Under(c)
			c, end := context.WithTimeout(u, time.Hour)
			return c, func() { end(); u.End(nil) }
		},
		"value and cause": func(c context.Context) (context.Context, func()) {
			c, end := context.WithCancelCause(context.WithValue(c, valueKey{}, 1))
			return c, func() { end(nil) }
		},
	}
	for name, of := range derive {
		for _, early := range []bool{true, false} {
			c := New()
			if !early {
				c.End(errWhy)
			}
			d, end := of(c)
			if early {
				if d.Err() != nil || context.Cause(d) != nil {
					t.Errorf("%s: ended before the end: %v, %v", name, d.Err(), context.Cause(d))
				}
				c.End(errWhy)
			}
			select {
			case <-d.Done():
			case <-time.After(10 * time.Second):
				t.Fatalf("%s, early %v: Done is open", name, early)
			}
			if d.Err() != context.Canceled || context.Cause(d) != errWhy {
				t.Errorf("%s, early %v: %v because of %v", name, early, d.Err(), context.Cause(d))
			}
			end()
		}
	}
}

func TestEndWithoutACause(t *testing.T) {
	c := New()
	c.End(nil)
	c.End(errWhy)
	if c.Err() != context.Canceled || context.Cause(c) != context.Canceled {
		t.Errorf("%v because of %v", c.Err(), context.Cause(c))
	}
	if _, ok := c.Deadline(); ok || c.Value(valueKey{}) != nil {
		t.Error("it has a deadline or a value")
	}
}

// TestContextUnderAnother ends alone, and is then forgotten; it ends at once with the one above it.
func TestContextUnderAnother(t *testing.T) {
	above := New()
	one, two := Under(above), Under(above)
	one.End(errWhy)
	if above.Err() != nil || two.Err() != nil || above.Forget(one) {
		t.Error("the end of a context has ended others, or it is still known")
	}
	above.End(context.DeadlineExceeded)
	if two.Err() == nil || context.Cause(two) != context.DeadlineExceeded || context.Cause(one) != errWhy {
		t.Errorf("ended because of %v and %v", context.Cause(one), context.Cause(two))
	}
	two.End(errWhy)
	limited, end := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, 1), time.Hour)
	c := Under(limited)
	if by, ok := c.Deadline(); !ok || time.Until(by) < time.Minute || c.Value(valueKey{}) != 1 {
		t.Error("the deadline or the value is not that of the context above")
	}
	end()
	<-c.Done()
	if c.Err() == nil || context.Cause(c) != context.Canceled {
		t.Errorf("ended because of %v", context.Cause(c))
	}
}

type waiter chan struct{}

func (w waiter) ContextEnded() { w <- struct{}{} }

func TestWaitersAreCalledOnce(t *testing.T) {
	c := New()
	var all []waiter
	for range 4 {
		w := make(waiter, 2)
		c.Await(w)
		all = append(all, w)
	}
	if !c.Forget(all[0]) || !c.Forget(all[2]) || c.Forget(all[2]) {
		t.Error("Forget is wrong about what waits")
	}
	again := make(waiter, 2)
	c.Await(again)
	c.End(errWhy)
	late := make(waiter, 2)
	c.Await(late)
	for i, w := range []waiter{all[1], all[3], again, late} {
		select {
		case <-w:
		case <-time.After(10 * time.Second):
			t.Fatalf("waiter %d was not called", i)
		}
	}
	c.End(errWhy)
	for i, w := range append(all, again, late) {
		if len(w) > 0 {
			t.Errorf("waiter %d was called again, or although it was forgotten", i)
		}
		if c.Forget(w) {
			t.Errorf("waiter %d still waits", i)
		}
	}
}

// TestErrAfterDone is not nil, and neither is the cause, however the goroutines run.
func TestErrAfterDone(t *testing.T) {
	for range 2000 {
		c := New()
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				<-c.Done()
				if c.Err() == nil || context.Cause(c) != errWhy {
					t.Errorf("%v because of %v", c.Err(), context.Cause(c))
				}
			})
		}
		wait.Go(func() {
			for c.Err() == nil {
				runtime.Gosched() // with one processor, 10 ms would pass until another goroutine runs
			}
			if context.Cause(c) != errWhy {
				t.Errorf("ended because of %v", context.Cause(c))
			}
		})
		wait.Go(func() { c.End(errWhy) })
		wait.Wait()
	}
}

// TestApart: a Context that was begun apart has the values of its parent, and neither its end nor its deadline.
func TestApart(t *testing.T) {
	type key struct{}
	above := New()
	parent, cancel := context.WithDeadline(context.WithValue(above, key{}, "value"), time.Now().Add(time.Hour))
	defer cancel()
	c := new(Context)
	c.BeginApart(parent)
	above.End(nil)
	<-parent.Done()
	if c.Err() != nil || context.Cause(c) != nil {
		t.Errorf("ended with %v", context.Cause(c))
	}
	if _, ok := c.Deadline(); ok {
		t.Error("has the deadline of the parent")
	}
	if v := c.Value(key{}); v != "value" {
		t.Errorf("the value is %v", v)
	}
	below, stop := context.WithCancel(c)
	defer stop()
	why := errors.New("why")
	c.End(why)
	<-below.Done()
	if context.Cause(below) != why || context.Cause(c) != why {
		t.Errorf("ended with %v and %v", context.Cause(below), context.Cause(c))
	}
}

// TestAJoinedContextEndsWithItsParent until it parts from it.
func TestAJoinedContextEndsWithItsParent(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(parent, c *Context)
		ends bool
	}{
		"joined":            {func(parent, c *Context) { c.Join(); parent.End(errWhy) }, true},
		"joined afterwards": {func(parent, c *Context) { parent.End(errWhy); c.Join() }, true},
		"parted":            {func(parent, c *Context) { c.Join(); c.Part(); parent.End(errWhy) }, false},
	} {
		parent, of := New(), New()
		of.BeginApart(parent)
		if c.do(parent, of); (of.Err() != nil) != c.ends || c.ends && context.Cause(of) != errWhy {
			t.Errorf("%s: %v, %v", name, of.Err(), context.Cause(of))
		}
	}
}
