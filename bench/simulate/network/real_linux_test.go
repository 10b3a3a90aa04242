package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// acts is what is done at both ends of a connection, a the dialer's. Read and write have a number of bytes; look says what the kernel's poll says,
// or what is told: in, and left for the end of the peer's sending.
var acts = []string{
	"a write 5, b read 9, b write 3, a read 2, a read 2, a look",
	"a look, a write 5, b look, b read 5, b look",
	"a write 5, a close, b look, b read 3, b read 9, b read 9, b look",
	"a closewrite, b look, b read 9, b write 4, a read 9, b close, a look, a read 1",
	"a closewrite, a write 1, a closewrite, a close, a close, a read 1, a write 1, a closewrite",
	"a closewrite, b closewrite, a read 1, b read 1, a write 1, a close, b close",
	// A close with bytes that were not read is a reset.
	"a write 5, b close, a look, a read 1, a read 1, a write 1",
	"a write 5, b close, a write 1, a write 1, a read 1, a closewrite",
	"a write 5, b write 4, b close, a look, a read 9, a read 9, a read 9, a write 1",
	"a write 5, b read 2, b write 4, b close, a write 1, a read 9, a read 9",
	"a write 5, a closewrite, b close, a read 9, a read 9",
	"a write 5, a closewrite, b close, a write 1",
	"b closewrite, a write 5, b close, a read 1, a write 1, a write 1",
	"b write 3, b closewrite, a write 5, b close, a read 9, a read 9, a write 1, a write 1, a closewrite",
	// After a close without them, what the peer writes is answered by a reset.
	"b close, a write 1, a write 1, a write 1, a read 1, a look",
	"b close, a write 1, a look, a read 1, a read 1, a write 1, a closewrite",
	"b write 3, b close, a write 1, a write 1, a read 9, a read 9",
	"b close, a closewrite, a read 1, a close",
	"b close, a write 1, a closewrite",
	"a write 5, b read 5, b close, a look, a read 1, a look, a write 1, a read 1, a write 1",
	"b linger, a look, a read 1, a read 1, a write 1, a closewrite",
	"b write 3, b linger, a read 9, a read 9, a read 9, a closewrite",
	"b write 3, b linger, a write 1, a read 9, a read 9, a write 1, a closewrite",
	// Deadlines.
	"a readby -1, a read 1, b write 3, a read 1, a readby 0, a read 1, b read 0",
	"a writeby -1, a write 1, a writeby 0, a write 1, b read 9",
	"a by -1, a write 1, a read 1, a close, a by 0, a readby -1, a read 1, a write 1",
	"b write 3, b close, a readby -1, a read 1, a readby 0, a read 1, a read 9, a read 9",
	"a write 0, b readby -1, b read 0, b readby 0, b read 0, b close, b read 0, b write 0",
}

// TestConnectionsAreAsRealOnes: all is answered as by sockets.
func TestConnectionsAreAsRealOnes(t *testing.T) {
	for _, act := range append(slices.Clone(acts), random(100)...) {
		var ours string
		synctest.Test(t, func(t *testing.T) { ours = play(act, inMemory(t)) })
		real := ""
		for range 50 { // what a socket has sent needs a moment
			if real = play(act, sockets(t)); real == ours {
				break
			}
		}
		if real != ours {
			t.Errorf("%s\n in memory %s\n sockets   %s", act, ours, real)
		}
	}
}

// random returns acts at random, which read only what is there.
func random(many int) (all []string) {
	r := rand.New(rand.NewPCG(1, 2))
	verbs := []string{"write 3", "write 5", "take 2", "take 9", "take 1", "look", "closewrite", "close", "linger"}
	for range many {
		var act []string
		for range 4 + r.IntN(12) {
			act = append(act, "ab"[r.IntN(2):][:1]+" "+verbs[r.IntN(6+r.IntN(4))])
		}
		all = append(all, strings.Join(act, ", "))
	}
	return all
}

// played is an end of a connection, and what it is asked.
type played struct {
	net.Conn
	look   func() string
	linger func() // closes it by a reset
}

func inMemory(t *testing.T) [2]played {
	n := New(false)
	t.Cleanup(n.Close)
	l, err := n.Listen("b", 9000)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]played
	if ends[0].Conn, err = n.Dial("a")(context.Background(), "tcp", "127.0.0.1:9000"); err != nil {
		t.Fatal(err)
	}
	if ends[1].Conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for i := range ends {
		c := ends[i].Conn.(telling)
		ends[i].look = func() string {
			var in, left notices
			defer c.Tell(rawio.Readable, &in)()
			defer c.Tell(rawio.Leaving, &left)()
			synctest.Wait()
			if c.end.closed {
				return "closed"
			}
			return looks(in.n.Load() > 0, left.n.Load() > 0)
		}
		ends[i].linger = func() {
			if !c.end.closed {
				n.Cut("a", "b", 0)
				c.Close()
			}
		}
	}
	return ends
}

func sockets(t *testing.T) [2]played {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var ends [2]played
	if ends[0].Conn, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ends[1].Conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for i := range ends {
		c := ends[i].Conn.(*net.TCPConn)
		t.Cleanup(func() { c.Close() })
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		ends[i].look = func() string {
			fds := []unix.PollFd{{Events: unix.POLLIN | unix.POLLRDHUP}}
			if raw.Control(func(fd uintptr) { fds[0].Fd = int32(fd); unix.Poll(fds, 0) }) != nil {
				return "closed"
			}
			return looks(fds[0].Revents&unix.POLLIN != 0, fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0)
		}
		ends[i].linger = func() { c.SetLinger(0); c.Close() }
	}
	return ends
}

func looks(in, left bool) string {
	said := "quiet"
	if in {
		said = "in"
	}
	if left {
		said += " left"
	}
	return said
}

// play does what act says, and returns what came of it.
func play(act string, ends [2]played) string {
	var all []string
	for step := range strings.SplitSeq(act, ", ") {
		words := append(strings.Fields(step), "0")
		e := ends[strings.Index("ab", words[0])]
		number, _ := strconv.Atoi(words[2])
		said := words[1]
		var n int
		var err error
		by := time.Time{}
		if number < 0 {
			by = time.Unix(1, 0)
		}
		switch words[1] {
		case "take":
			if said = e.look(); !strings.HasPrefix(said, "in") {
				break
			}
			fallthrough
		case "read":
			p := make([]byte, number)
			n, err = e.Read(p)
			said += fmt.Sprintf(" %q", p[:n])
		case "write":
			n, err = e.Write([]byte("hello")[:number])
			said += " " + strconv.Itoa(n)
		case "close":
			err = e.Close()
		case "closewrite":
			err = e.Conn.(interface{ CloseWrite() error }).CloseWrite()
		case "readby":
			err = e.SetReadDeadline(by)
		case "writeby":
			err = e.SetWriteDeadline(by)
		case "by":
			err = e.SetDeadline(by)
		case "look":
			said = e.look()
		case "linger":
			e.linger()
		}
		all = append(all, said+failure(err))
	}
	return strings.Join(all, ", ")
}

// failure is all of err that is not about addresses.
func failure(err error) string {
	if err == nil || err == io.EOF {
		return strings.TrimSuffix(fmt.Sprintf(" %v", err), " <nil>")
	}
	var op *net.OpError
	if !errors.As(err, &op) {
		return fmt.Sprintf(" %T %v", err, err)
	}
	kinds := []error{syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, syscall.ENOTCONN}
	i := slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
	return fmt.Sprintf(" (%s %s %T %v %v kind %d timeout %t)", op.Op, op.Net, op.Err, op.Err, op.Source != nil && op.Addr != nil, i, op.Timeout())
}
