package downstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// stall announces a body of length bytes, and sends only its beginning.
func stall(t *testing.T, addr, header string, length int, beginning string) net.Conn {
	t.Helper()
	nc := dial(t, addr)
	if _, err := fmt.Fprintf(nc, "%s%sContent-Length: %d\r\n\r\n%s", postHead, header, length, beginning); err != nil {
		t.Fatal(err)
	}
	return nc
}

// TestStalledUploadsLeaveRoomForOthers: 52 bodies of 10 MiB are more than the budget
// has, but bytes that did not come take no room.
func TestStalledUploadsLeaveRoomForOthers(t *testing.T) {
	memory := large.NewMemory(512 << 20)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: memory, BudgetWait: 100 * time.Millisecond})
	for range 52 {
		stall(t, s.addr, "", 10<<20, strings.Repeat("x", 100<<10))
	}
	peertest.Eventually(t, "the stalled uploads to hold what has come", func() bool { return memory.Budget.Taken() >= 52*100<<10 })
	for _, size := range []int{9 << 10, 1 << 20, 10 << 20} {
		body := strings.Repeat("y", size)
		if res, got := ask(t, s.addr, post(body)); res.StatusCode != 200 || got != body {
			t.Errorf("%d bytes: %d %.100q", size, res.StatusCode, got)
		}
	}
}

// TestStalledUploadsHoldAQuarterOfTheBudget: a client that has sent much and stalls leaves the rest
// of the budget to others.
func TestStalledUploadsHoldAQuarterOfTheBudget(t *testing.T) {
	const size = 1 << 20
	memory := large.NewMemory(16 * size)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: memory, BudgetWait: 100 * time.Millisecond, Tokens: []string{"greedy", "good"}})
	as := func(token string) string { return "Authorization: Bearer " + token + "\r\n" }
	for range 20 {
		nc := dial(t, s.addr)
		go fmt.Fprintf(nc, "%s%sContent-Length: %d\r\n\r\n%s", postHead, as("greedy"), size, strings.Repeat("x", size-1))
	}
	peertest.Eventually(t, "the greedy client to hold its share", func() bool { return memory.Budget.Taken() >= 4*size })
	for range 30 {
		body := strings.Repeat("y", 2*size)
		request := fmt.Sprintf("%s%sContent-Length: %d\r\n\r\n%s", postHead, as("good"), len(body), body)
		if res, got := ask(t, s.addr, request); res.StatusCode != 200 || got != body {
			t.Fatalf("%d %.100q", res.StatusCode, got)
		}
	}
	if taken := memory.Budget.Taken(); taken > 13*size {
		t.Errorf("the greedy client holds %d bytes", taken)
	}
}

// TestSlowUploadEnds with status 408, at whatever point of the body it has become slow.
func TestSlowUploadEnds(t *testing.T) {
	memory := large.NewMemory(512 << 20)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: memory, UploadTime: 200 * time.Millisecond})
	for _, beginning := range []int{0, 100, 9 << 10, 100 << 10} {
		nc := stall(t, s.addr, "", 10<<20, strings.Repeat("x", beginning))
		go func() {
			for _, err := io.WriteString(nc, "x"); err == nil; _, err = io.WriteString(nc, "x") {
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if res, body := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 408 {
			t.Errorf("after %d bytes: %d %s", beginning, res.StatusCode, body)
		}
	}
	peertest.Eventually(t, "their memory to be free", func() bool { return memory.Budget.Taken() == 0 })
}

// TestSteadyUploadGoesOn for longer than the time in which a body must not stall.
func TestSteadyUploadGoesOn(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, fakeHandler{post: echo}, HTTPConfig{UploadTime: 5 * time.Second})
	body := strings.Repeat("x", 60<<10)
	nc := stall(t, s.addr, "", len(body), body[:20<<10])
	for at := 20 << 10; at < len(body); at += 4 << 10 {
		time.Sleep(600 * time.Millisecond)
		if _, err := io.WriteString(nc, body[at:at+4<<10]); err != nil {
			t.Fatal(err)
		}
	}
	if res, got := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 200 || got != body {
		t.Errorf("%d %.100q", res.StatusCode, got)
	}
}
