package large

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// grow requests n bytes, and returns once the request waits for them.
func grow(b *Budget, ctx context.Context, s *Share, n int64) chan error {
	before := b.Waiting()
	got := make(chan error, 1)
	go func() { got <- s.Grow(ctx, n) }()
	for b.Waiting() == before {
		runtime.Gosched()
	}
	return got
}

func take(t *testing.T, s *Share, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Grow(ctx, n); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
}

func TestBudgetServesInOrder(t *testing.T) {
	b := NewBudget(10)
	held, big, one := b.Share("a", 8), b.Share("b", 5), b.Share("c", 1)
	take(t, &held, 8)
	large := grow(b, t.Context(), &big, 5)
	small := grow(b, t.Context(), &one, 1) // would fit, but the other was first
	held.Release()
	if err := recv(t, large, "the large one"); err != nil {
		t.Error(err)
	}
	if err := recv(t, small, "the small one"); err != nil {
		t.Error(err)
	}
	big.Release()
	one.Release()
	one.Release() // holds nothing any more
	if b.Taken() != 0 || len(b.clients) != 0 {
		t.Errorf("%d bytes are taken, %d clients are known", b.Taken(), len(b.clients))
	}
}

func TestWaitForTheBudgetEndsWithItsContext(t *testing.T) {
	b := NewBudget(10)
	if err := b.Take(t.Context(), Whole, 12); err != nil { // more than there is
		t.Fatal(err)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	ten, one := b.Share("a", 10), b.Share("a", 1)
	first := grow(b, ctx, &ten, 10)
	second := grow(b, t.Context(), &one, 1)
	cancel(why)
	if err := recv(t, first, "the first"); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	b.Give(Whole, 3)
	if err := recv(t, second, "the second"); err != nil {
		t.Error(err)
	}
	b.Give(Whole, 9)
	one.Release()
	if b.Taken() != 0 || len(b.clients) != 0 {
		t.Errorf("%d bytes are taken, %d clients are known", b.Taken(), len(b.clients))
	}
}

func TestBudgetAdmitsOneMessageLargerThanItself(t *testing.T) {
	b := NewBudget(10)
	one, hundred := b.Share("a", 1), b.Share("a", 100)
	take(t, &one, 1)
	giant := grow(b, t.Context(), &hundred, 100)
	one.Release()
	if err := recv(t, giant, "the giant"); err != nil {
		t.Error(err)
	}
}

// TestClientHoldsAQuarterWhileOthersWait checks also that a client may hold everything
// while no others wait.
func TestClientHoldsAQuarterWhileOthersWait(t *testing.T) {
	b := NewBudget(100)
	var greedy []*Share
	more := func() *Share {
		s := b.Share("greedy", 10)
		greedy = append(greedy, &s)
		return &s
	}
	for range 7 {
		take(t, more(), 10)
	}
	waits := grow(b, t.Context(), more(), 10) // the last quarter is for others
	first, second := b.Share("first", 20), b.Share("second", 20)
	take(t, &first, 20)
	blocked := grow(b, t.Context(), &second, 20)
	greedy[0].Release() // whose client was there first
	if err := recv(t, blocked, "the other client"); err != nil {
		t.Error(err)
	}
	if b.Waiting() != 1 {
		t.Error("the greedy client got its bytes, too")
	}
	second.Release()
	first.Release()
	if err := recv(t, waits, "the greedy client"); err != nil {
		t.Error(err)
	}
}

// TestMessageThatHasBegunGoesOn has a client with a quarter of the budget in two messages
// that are half read, while another client waits for the bytes of both.
func TestMessageThatHasBegunGoesOn(t *testing.T) {
	b := NewBudget(100)
	one, two, all := b.Share("a", 20), b.Share("a", 20), b.Share("b", 90)
	take(t, &one, 13)
	take(t, &two, 13)
	waits := grow(b, t.Context(), &all, 90)
	take(t, &one, 7)
	take(t, &two, 7)
	one.Release()
	two.Release()
	if err := recv(t, waits, "the other client"); err != nil {
		t.Error(err)
	}
}

// TestClientsWithAQuarterDoNotBlockEachOther has two clients that both hold a quarter
// of the budget and both want more.
func TestClientsWithAQuarterDoNotBlockEachOther(t *testing.T) {
	b := NewBudget(100)
	shares := make([]Share, 6)
	for i, client := range []string{"a", "a", "b", "b"} {
		shares[i] = b.Share(client, 15)
		take(t, &shares[i], 15)
	}
	shares[4], shares[5] = b.Share("a", 20), b.Share("b", 20)
	first := grow(b, t.Context(), &shares[4], 20) // the last quarter is for others
	second := grow(b, t.Context(), &shares[5], 20)
	shares[0].Release()
	if err := recv(t, first, "the first client"); err != nil {
		t.Error(err)
	}
	shares[1].Release()
	if err := recv(t, second, "the second client"); err != nil {
		t.Error(err)
	}
}

// TestHalfReadMessagesDoNotWaitForEachOther has messages that are together larger than
// the budget, and of each of which a part has come.
func TestHalfReadMessagesDoNotWaitForEachOther(t *testing.T) {
	for _, mosts := range [][]int64{{10}, {30}, {60}, {10, 80, 1, 30}} {
		for _, clients := range []int{1, 3, 40} {
			b := NewBudget(100)
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					most := mosts[i%len(mosts)]
					s := b.Share(strconv.Itoa(i%clients), most)
					for range most {
						take(t, &s, 1)
						runtime.Gosched()
					}
					s.Release()
				})
			}
			wg.Wait()
			if b.Taken() != 0 || b.Waiting() != 0 || len(b.clients) != 0 {
				t.Errorf("%d bytes are taken, %d wait, %d clients are known", b.Taken(), b.Waiting(), len(b.clients))
			}
		}
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
				s := b.Share(strconv.Itoa(i%5), n)
				if s.Grow(ctx, n) == nil {
					if held.Add(n) > size {
						t.Error("more was taken than there is")
					}
					runtime.Gosched()
					held.Add(-n)
					s.Release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if b.Taken() != 0 || b.Waiting() != 0 || len(b.clients) != 0 {
		t.Errorf("%d bytes are taken, %d wait, %d clients are known", b.Taken(), b.Waiting(), len(b.clients))
	}
}

// TestAnswersFindRoomWhileRequestsHoldTheirs has requests that hold their bytes until
// the answers have come, each of which takes room of its own, twice, and then a copy.
func TestAnswersFindRoomWhileRequestsHoldTheirs(t *testing.T) {
	const size = 1000
	b := NewBudget(size)
	b.reserve[Whole], b.reserve[Partial] = size/2, size/16
	var most atomic.Int64
	var wg sync.WaitGroup
	take := func(c Class, n int64) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := b.Take(ctx, c, n); err != nil {
			t.Errorf("class %d: %v", c, err)
		}
		for taken := b.Taken(); ; {
			if at := most.Load(); taken <= at || most.CompareAndSwap(at, taken) {
				break
			}
		}
		runtime.Gosched()
	}
	for i := range 60 {
		wg.Go(func() {
			s := b.Share(strconv.Itoa(i%7), 90)
			if err := s.Grow(t.Context(), 90); err != nil {
				t.Error(err)
			}
			take(RequestCopy, 90)
			b.Give(RequestCopy, 90)
			take(Partial, 10)
			take(Whole, size/2)
			b.Give(Partial, 10)
			take(Copy, size/2)
			b.Give(Copy, size/2)
			b.Give(Whole, size/2)
			s.Release()
		})
	}
	wg.Wait()
	if b.Taken() != 0 || b.Waiting() != 0 || len(b.clients) != 0 {
		t.Errorf("%d bytes are taken, %d wait, %d clients are known", b.Taken(), b.Waiting(), len(b.clients))
	}
	if over := most.Load() - size; over > size/2 {
		t.Errorf("%d bytes more than there are were taken, and one copy has %d", over, size/2)
	}
}

// TestNoRoomErrorSaysWhatToDo checks that the error says how many bytes were wanted, and what to
// do.
func TestNoRoomErrorSaysWhatToDo(t *testing.T) {
	m := NewMemory(10 << 20)
	l := m.Lender(t.Context(), 10*time.Millisecond)
	b, err := l.Take(10 << 20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Take(5 << 20)
	if full, ok := errors.AsType[*NoRoomError](err); !ok || full.Bytes != 8<<20 || !strings.Contains(err.Error(), "limits.in_hand") {
		t.Errorf("err = %v", err)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	gone := m.Lender(ctx, time.Hour)
	if _, err := gone.Take(5 << 20); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	m.Put(b)
	if b, err = l.Take(5 << 20); err != nil {
		t.Fatal(err)
	}
	m.Forget(b)
	if m.Budget.Taken() != 0 {
		t.Errorf("%d bytes are taken", m.Budget.Taken())
	}
}
