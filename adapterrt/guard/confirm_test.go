package guard

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

func TestTheOldestTokensAreRemoved(t *testing.T) {
	var s Confirmations
	now := time.Unix(1_000_000_000, 0)
	first, _ := s.issue(&confirmation{expires: now.Add(time.Hour)})
	for i := range maxConfirmations {
		s.issue(&confirmation{session: fmt.Sprint(i)})
	}
	if f := s.redeem(first, [32]byte{}, now); f == nil || f.Code != failure.TokenInvalid || len(s.byToken) != maxConfirmations {
		t.Error(f, len(s.byToken))
	}
}

// restful returns an operation that may run once a day.
func restful() *file.Operation {
	return &file.Operation{Adapter: &file.Adapter{}, Name: "rest", Danger: file.Danger{Cooldown: 86_400}}
}

func TestTheOldestRunsAreForgotten(t *testing.T) {
	var s Confirmations
	op, now := restful(), time.Unix(1_000_000_000, 0)
	run := func(i int) *failure.Failure {
		now = now.Add(time.Millisecond)
		return s.Check(context.Background(), &httpcall.Call{Op: op, Caller: fmt.Sprint(i)}, &Judgement{}, Asker{}, func() time.Time { return now })
	}
	for i := range 3 * maxRuns {
		if f := run(i); f != nil {
			t.Fatal(i, f)
		}
	}
	if len(s.ran) > maxRuns {
		t.Errorf("%d runs are kept, want at most %d", len(s.ran), maxRuns)
	}
	for _, i := range []int{3*maxRuns - 1, 2 * maxRuns} {
		if f := run(i); f == nil || f.Code != failure.RateLimitExceeded {
			t.Errorf("run %d is not counted: %v", i, f)
		}
	}
	if f := run(0); f != nil {
		t.Error("the oldest run still counts:", f)
	}
}

// TestALongCooldownOutlivesManyShortOnes: what is over is forgotten before what still counts.
func TestALongCooldownOutlivesManyShortOnes(t *testing.T) {
	var s Confirmations
	long, short, now := restful(), restful(), time.Unix(1_000_000_000, 0)
	short.Danger.Cooldown, short.Index = 1, 1
	run := func(op *file.Operation, caller int) *failure.Failure {
		now = now.Add(time.Millisecond)
		return s.Check(context.Background(), &httpcall.Call{Op: op, Caller: fmt.Sprint(caller)}, &Judgement{}, Asker{}, func() time.Time { return now })
	}
	if f := run(long, 0); f != nil {
		t.Fatal(f)
	}
	for i := range 2 * maxRuns {
		if f := run(short, i); f != nil {
			t.Fatal(i, f)
		}
	}
	if f := run(long, 0); f == nil {
		t.Error("the long cooldown was forgotten")
	}
	if len(s.ran) > maxRuns || len(s.runs) != len(s.ran) {
		t.Errorf("%d runs are kept, and %d are in order", len(s.ran), len(s.runs))
	}
}

// TestACallThatOutlivesItsAdapter: a call that began before a reload ends after it. It must not keep the old version in memory.
func TestACallThatOutlivesItsAdapter(t *testing.T) {
	var s Confirmations
	k := NewCache(time.Now)
	gone := func() weak.Pointer[file.Adapter] {
		op := restful()
		op.Cache = &file.CacheRule{TTL: time.Hour}
		c := &httpcall.Call{Op: op}
		s.Forget(op.Adapter)
		k.Clear(op.Adapter)
		for _, v := range []Judgement{{}, {verdict: Confirm}} {
			s.Check(context.Background(), c, &v, Asker{}, time.Now)
		}
		if _, _, f := k.Fetch(context.Background(), c, answering{}); f != nil {
			t.Error(f)
		}
		k.Clear(op.Adapter)
		if _, _, f := k.Fetch(context.Background(), c, answering{}); f != nil {
			t.Error(f)
		}
		return weak.Make(op.Adapter)
	}()
	for range 10 {
		if runtime.GC(); gone.Value() == nil {
			break
		}
	}
	if gone.Value() != nil {
		t.Error("the old version is kept")
	}
	runtime.KeepAlive(&s)
	runtime.KeepAlive(k)
}

// answering is an API that answers every call.
type answering struct{}

func (answering) Authorize(context.Context, *httpcall.Outgoing) *failure.Failure { return nil }
func (answering) Send(context.Context, *httpcall.Call) (*httpcall.Reply, *failure.Failure) {
	return &httpcall.Reply{Status: 200, Header: http.Header{}, Body: []byte("1")}, nil
}
