package network

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsDoNotDependOnGoroutines is that what is sent in one instant arrives in the same order, whichever goroutine sends first, and in
// another one for another seed.
func TestTurnsDoNotDependOnGoroutines(t *testing.T) {
	play := func(seed uint64, first int) (order string) {
		synctest.Test(t, func(t *testing.T) {
			n := New(false)
			n.InTurn(seed)
			l, err := n.Listen("server", 9000)
			if err != nil {
				t.Fatal(err)
			}
			came := make(chan string, 8)
			for i := range 4 {
				host := fmt.Sprint("c", (i+first)%4)
				go func() {
					c, err := n.Dial(host)(Sends(context.Background(), []byte(host)), "tcp", "127.0.0.1:9000")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Second)
					c.Write([]byte(host))
				}()
			}
			for range 4 {
				go func() {
					c, err := l.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					p := make([]byte, 8)
					k, _ := c.Read(p)
					came <- string(p[:k])
				}()
			}
			time.Sleep(time.Minute)
			n.Rest()
			close(came)
			for host := range came {
				order += host
			}
			n.Close()
		})
		return order
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		order := play(seed, 0)
		orders[order] = true
		for first := 1; first < 4; first++ {
			if again := play(seed, first); again != order {
				t.Errorf("seed %d: %s and %s", seed, order, again)
			}
		}
	}
	if len(orders) < 5 {
		t.Errorf("20 seeds have only the orders %v", orders)
	}
}

// TestBehind is that what is behind a connection does not overtake what was written to it.
func TestBehind(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			n := New(false)
			n.InTurn(seed)
			a, b := n.Pipe("own", "server")
			var happened []string
			go func() {
				p := make([]byte, 8)
				b.Read(p)
				happened = append(happened, "read")
			}()
			n.Rest()
			n.Behind(a, func() { happened = append(happened, "ended") })
			a.Write([]byte("x"))
			n.Rest()
			if got := strings.Join(happened, " "); got != "read ended" {
				t.Errorf("seed %d: %s", seed, got)
			}
			n.Close()
		})
	}
}
