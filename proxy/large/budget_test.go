package large

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// acquire asks for n bytes and returns once it waits for them.
func acquire(b *Budget, ctx context.Context, n int64) chan error {
	before := b.Waiting()
	got := make(chan error, 1)
	go func() { got <- b.Acquire(ctx, n) }()
	for b.Waiting() == before {
		runtime.Gosched()
	}
	return got
}

func TestBudgetServesInOrder(t *testing.T) {
	b := NewBudget(10)
	if err := b.Acquire(context.Background(), 8); err != nil {
		t.Fatal(err)
	}
	large := acquire(b, context.Background(), 5)
	small := acquire(b, context.Background(), 1) // would fit, but others were first
	b.Release(2)
	b.Release(2)
	if err := recv(t, large, "the large one"); err != nil {
		t.Error(err)
	}
	if err := recv(t, small, "the small one"); err != nil {
		t.Error(err)
	}
	b.Release(4)
	b.Release(5)
	b.Release(1)
	if b.Taken() != 0 {
		t.Errorf("%d bytes are taken", b.Taken())
	}
}

func TestBudgetGivesUpWithItsContext(t *testing.T) {
	b := NewBudget(10)
	b.Add(12) // more than there is
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	first := acquire(b, ctx, 10)
	second := acquire(b, context.Background(), 1)
	cancel(why)
	if err := recv(t, first, "the first"); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	b.Release(3)
	if err := recv(t, second, "the second"); err != nil {
		t.Error(err)
	}
	b.Release(9)
	b.Release(1)
	if b.Taken() != 0 {
		t.Errorf("%d bytes are taken", b.Taken())
	}
}

func TestBudgetAdmitsOneThatIsLargerThanAll(t *testing.T) {
	b := NewBudget(10)
	if err := b.Acquire(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	giant := acquire(b, context.Background(), 100)
	b.Release(1)
	if err := recv(t, giant, "the giant"); err != nil {
		t.Error(err)
	}
}

func TestBudgetIsNeverOverdrawn(t *testing.T) {
	const size = 100
	b := NewBudget(size)
	var held atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 200 {
				n := int64((i*j)%size + 1)
				ctx, cancel := context.WithCancel(context.Background())
				if j%7 == 0 {
					cancel()
				}
				if b.Acquire(ctx, n) == nil {
					if held.Add(n) > size {
						t.Error("more was taken than there is")
					}
					runtime.Gosched()
					held.Add(-n)
					b.Release(n)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if b.Taken() != 0 || b.Waiting() != 0 {
		t.Errorf("%d bytes are taken, %d wait", b.Taken(), b.Waiting())
	}
}
