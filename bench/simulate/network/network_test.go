package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// notices counts.
type notices struct{ n atomic.Int32 }

func (c *notices) Notice() { c.n.Add(1) }

// world is a network with a server that listens at 127.0.0.1:9000.
type world struct {
	*Network
	t *testing.T
	l net.Listener
}

// inBubble plays in a bubble, at whose end the network is closed and no goroutine may be left.
func inBubble(t *testing.T, play func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{Network: New(false), t: t}
		defer w.Close()
		w.l = w.listen("server", 9000)
		play(w)
	})
}

func (w world) listen(host string, port int) net.Listener {
	w.t.Helper()
	l, err := w.Listen(host, port)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w world) dial(from string, port int) (net.Conn, error) {
	return w.Dial(from)(context.Background(), "tcp", address(port).String())
}

// pair returns both ends of a connection from host from to the server.
func (w world) pair(from string) (near, far net.Conn) {
	w.t.Helper()
	near, err := w.dial(from, 9000)
	if err != nil {
		w.t.Fatal(err)
	}
	far, err = w.l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	return near, far
}

// read reads once, and waits at most for d.
func read(c net.Conn, d time.Duration) string {
	c.SetReadDeadline(time.Now().Add(d))
	p := make([]byte, 100)
	n, err := c.Read(p)
	return strings.TrimSpace(string(p[:n]) + brief(err))
}

func write(c net.Conn, text string) string {
	c.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := c.Write([]byte(text))
	return strings.TrimSpace("ok" + brief(err))
}

func brief(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{
		{io.EOF, "EOF"}, {syscall.ECONNRESET, "reset"}, {syscall.EPIPE, "pipe"}, {syscall.ETIMEDOUT, "dead"}, {os.ErrDeadlineExceeded, "late"},
		{net.ErrClosed, "closed"}, {os.ErrClosed, "closed"}, {syscall.ECONNREFUSED, "refused"}, {syscall.ENETUNREACH, "unreachable"},
		{syscall.EADDRINUSE, "in use"}, {syscall.EADDRNOTAVAIL, "not available"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "late"},
	} {
		if errors.Is(err, k.err) {
			return " " + k.name
		}
	}
	if err != nil {
		return " " + err.Error()
	}
	return ""
}

func (w world) same(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestHTTP is that package net/http, which asks much of a connection, works.
func TestHTTP(t *testing.T) {
	inBubble(t, func(w world) {
		srv := http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %d", r.RemoteAddr, len(body))
		})}
		done := make(chan error)
		go func() { done <- srv.Serve(w.l) }()
		tr := &http.Transport{DialContext: w.Dial("c1")}
		defer tr.CloseIdleConnections()
		client := http.Client{Transport: tr}
		for range 2 {
			resp, err := client.Post("http://127.0.0.1:9000/", "text/plain", bytes.NewReader(make([]byte, 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			w.same("answer", string(body), "127.0.0.1:20001 1048576")
		}
		w.same("open", w.Open("c1"), 1)
		tr.CloseIdleConnections()
		srv.Close()
		w.same("serve", <-done, http.ErrServerClosed)
		w.same("open", w.Open("c1")+w.Open("server"), 0)
	})
}

func TestListening(t *testing.T) {
	inBubble(t, func(w world) {
		_, err := w.Listen("other", 9000)
		w.same("a port that is taken", brief(err), " in use")
		_, err = w.dial("c1", 9001)
		w.same("a port where nothing listens", brief(err), " refused")
		w.same("its text", err.Error(), "dial tcp 127.0.0.1:9001: connect: connection refused")

		waiting, err := w.dial("c1", 9000)
		if err != nil {
			t.Fatal(err)
		}
		w.l.Close()
		w.same("what was not accepted", read(waiting, time.Second), "reset")
		_, err = w.dial("c1", 9000)
		w.same("after Close", brief(err), " refused")
		_, err = w.l.Accept()
		w.same("Accept after Close", brief(err), " closed")
		w.same("Close again", brief(w.l.Close()), " closed")

		w.l = w.listen("other", 9000)
		near, far := w.pair("c1")
		w.same("peers", near.(interface{ Peer() string }).Peer()+far.(interface{ Peer() string }).Peer(), "otherc1")
		w.same("ids", near.(interface{ ID() int }).ID(), far.(interface{ ID() int }).ID())
		w.same("addresses", near.LocalAddr().String(), far.RemoteAddr().String())
		w.same("addresses", near.RemoteAddr().String(), far.LocalAddr().String())
	})
}

// TestAcceptWaits until a connection is there or the listener is closed.
func TestAcceptWaits(t *testing.T) {
	inBubble(t, func(w world) {
		accepted := make(chan error)
		accept := func() { _, err := w.l.Accept(); accepted <- err }
		go accept()
		time.Sleep(time.Hour)
		w.dial("c1", 9000)
		w.same("accept", <-accepted, nil)
		go accept()
		time.Sleep(time.Hour)
		w.l.Close()
		w.same("accept", brief(<-accepted), " closed")
	})
}

// TestBalance is that connections go to the replicas in turn, without those that do not listen.
func TestBalance(t *testing.T) {
	inBubble(t, func(w world) {
		w.Balance(8000, 8001, 8002, 8003)
		dial := func() string {
			c, err := w.dial("c1", 8000)
			if err != nil {
				return strings.TrimSpace(brief(err))
			}
			return c.(interface{ Peer() string }).Peer()
		}
		w.same("nothing listens", dial(), "refused")
		w.listen("r1", 8001)
		r2 := w.listen("r2", 8002)
		w.listen("r3", 8003)
		w.same("all", fmt.Sprint(dial(), dial(), dial(), dial()), "r1r2r3r1")
		r2.Close()
		w.same("without one", fmt.Sprint(dial(), dial(), dial()), "r3r1r3")
		w.Refuse("r3", time.Minute)
		w.same("without two", fmt.Sprint(dial(), dial()), "r1r1")
		w.Kill("r1")
		w.same("without all", dial(), "refused")
		w.Heal()
		w.same("one is back", fmt.Sprint(dial(), dial()), "r3r3")
	})
}

// TestWindow is that a write waits for a reader, up to a deadline, which says how much was written.
func TestWindow(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		a, b := w.Pipe("c3", "p3")
		for _, c := range []struct {
			near, far net.Conn
			window    int
		}{{near, far, 256 << 10}, {a, b, 64 << 10}} {
			c.near.SetWriteDeadline(time.Now().Add(time.Minute))
			n, err := c.near.Write(make([]byte, 1<<20))
			w.same("written", fmt.Sprint(n, brief(err)), fmt.Sprint(c.window, " late"))
			c.near.SetWriteDeadline(time.Time{})
			var later int
			go func() {
				time.Sleep(time.Minute)
				io.CopyN(io.Discard, c.far, int64(c.window)+1000)
			}()
			later, err = c.near.Write(make([]byte, 1000))
			w.same("written", fmt.Sprint(later, err), "1000 <nil>")
			synctest.Wait()
		}
	})
}

// TestDeadlines wake calls that wait, and can be moved meanwhile.
func TestDeadlines(t *testing.T) {
	inBubble(t, func(w world) {
		near, _ := w.pair("c1")
		begun := time.Now()
		time.AfterFunc(time.Second, func() { near.SetReadDeadline(time.Now().Add(time.Minute)) })
		w.same("read", read(near, 2*time.Second), "late")
		w.same("after", time.Since(begun), 61*time.Second)
		time.AfterFunc(time.Second, func() { near.SetReadDeadline(time.Unix(1, 0)) })
		w.same("read", read(near, time.Minute), "late")
		w.same("after", time.Since(begun), 62*time.Second)
		time.AfterFunc(time.Second, func() { near.Close() })
		near.SetReadDeadline(time.Time{})
		_, err := near.Read(make([]byte, 1))
		w.same("read", brief(err), " closed")
		w.same("after", time.Since(begun), 63*time.Second)
	})
}

// TestPipe is that pipes end as those of a process do.
func TestPipe(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.Pipe("c3", "p3")
		w.same("write", write(a, "one"), "ok")
		w.same("read", read(b, time.Second), "one")
		w.same("close", a.(interface{ CloseWrite() error }).CloseWrite(), nil)
		w.same("write", write(a, "more"), "ok pipe")
		w.same("end", read(b, time.Second), "EOF")
		w.same("the other way", write(b, "two"), "ok")
		b.Close()
		w.same("what was written before", read(a, time.Second), "two")
		w.same("end", read(a, time.Second), "EOF")
		a.Close()
		_, err := a.Write([]byte("x"))
		w.same("text", err.Error(), "write |c3-p3: file already closed")

		a, b = w.Pipe("c3", "p3")
		w.same("write", write(a, "one"), "ok")
		b.Close()
		w.same("at once", write(a, "two"), "ok pipe")

		a, b = w.Pipe("c3", "p3")
		write(a, "lost")
		write(b, "found")
		w.Kill("p3")
		w.same("write", write(a, "two"), "ok pipe")
		w.same("what was written before", read(a, time.Second)+read(a, time.Second), "foundEOF")
		w.same("the dead", read(b, time.Second)+" "+write(b, "x"), "reset ok")
		w.same("open", w.Open("p3"), 0)
	})
}

// TestTold is what watchers are notified of.
func TestTold(t *testing.T) {
	inBubble(t, func(w world) {
		told := func(c net.Conn, what rawio.Watched) (*notices, func()) {
			by := new(notices)
			return by, c.(telling).Tell(what, by)
		}
		count := func(by *notices) int32 { synctest.Wait(); return by.n.Load() }

		near, far := w.pair("c1")
		left, _ := told(far, rawio.Leaving)
		in, _ := told(far, rawio.Readable)
		removed, stop := told(far, rawio.Readable)
		stop()
		w.same("nothing yet", count(left)+count(in), int32(0))
		write(near, "hello")
		write(near, "hello")
		w.same("readable", count(in), int32(1))
		w.same("removed", count(removed), int32(0))
		w.same("not left", count(left), int32(0))
		near.Close()
		w.same("left, with unread bytes", count(left), int32(1))
		in, _ = told(far, rawio.Readable)
		w.same("readable already", count(in), int32(1))
		left, _ = told(far, rawio.Leaving)
		w.same("left already", count(left), int32(1))

		for _, how := range []struct {
			name string
			do   func(c net.Conn)
		}{
			{"closewrite", func(c net.Conn) { c.(telling).CloseWrite() }},
			{"cut", func(net.Conn) { w.Cut("c2", "", 0) }},
			{"half", func(net.Conn) { w.Half("c2", "server") }},
			{"kill", func(net.Conn) { w.Kill("c2"); w.Revive("c2") }},
		} {
			near, far := w.pair("c2")
			left, _ := told(far, rawio.Leaving)
			in, _ := told(far, rawio.Readable)
			w.same("quiet", far.(interface{ Quiet() error }).Quiet(), nil)
			how.do(near)
			w.same(how.name, fmt.Sprint(count(left), count(in)), "1 1")
			w.same("quiet", far.(interface{ Quiet() error }).Quiet() == nil, false)
		}

		near, far = w.pair("c1")
		left, _ = told(far, rawio.Leaving)
		far.Close()
		w.same("closed by itself", count(left), int32(0))
		near.Close()
		w.same("closed by both", count(left), int32(0))
	})
}

// TestPortable is that a portable network tells nothing.
func TestPortable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{Network: New(true), t: t}
		defer w.Close()
		w.l = w.listen("server", 9000)
		near, far := w.pair("c1")
		for _, c := range []net.Conn{near, far} {
			_, tells := c.(interface {
				Tell(rawio.Watched, rawio.Watcher) func()
			})
			_, quiet := c.(interface{ Quiet() error })
			_, half := c.(interface{ CloseWrite() error })
			w.same("tells, quiet, half", fmt.Sprint(tells, quiet, half), "false false true")
		}
	})
}

func TestCut(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		other, otherFar := w.pair("c2")
		w.Cut("server", "c1", 7)
		w.same("write", write(near, "hello"), "ok")
		w.same("write", write(far, "hello"), "ok")
		w.same("before the cut", read(far, time.Second)+" "+read(far, time.Second), "hello reset")
		w.same("a part", read(near, time.Second)+" "+read(near, time.Second), "he reset")
		w.same("write", write(near, "x"), "ok pipe")
		w.same("another connection", write(other, "x")+read(otherFar, time.Second), "okx")
		w.Cut("", "", 0)
		w.same("now", read(other, time.Second), "reset")

		near, far = w.pair("c1")
		w.Cut("c1", "server", 3)
		w.Heal()
		w.same("taken back", write(near, "hello")+read(far, time.Second), "okhello")
	})
}

func TestHalf(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		w.Half("c1", "")
		w.same("the end", read(far, time.Second), "EOF")
		w.same("the other way", write(far, "hello")+read(near, time.Second), "okhello")
		w.same("nothing known", read(near, time.Second), "late")
		w.same("write", write(near, "x")+" "+write(near, "y"), "ok ok reset")
		w.same("from the other way", write(far, "x")+" "+write(far, "x"), "ok ok pipe")
		near, far = w.pair("c1")
		w.Half("server", "c1")
		w.same("the end", read(near, time.Second)+" "+read(far, time.Second), "EOF late")
	})
}

func TestStall(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		begun := time.Now()
		write(far, "before")
		w.Stall("c1", "", time.Minute)
		w.Stall("c1", "server", time.Second) // which ends nothing
		w.same("what was there", read(near, time.Hour), "before")
		write(near, "hello")
		w.same("read", read(far, 30*time.Second), "late")
		w.same("read", read(far, time.Hour), "hello")
		w.same("after", time.Since(begun), time.Minute)

		w.Stall("c1", "server", time.Minute)
		dialed := make(chan error)
		go func() { _, err := w.dial("c1", 9000); dialed <- err }()
		_, err := w.dial("c2", 9000)
		w.same("another dial", fmt.Sprint(err, time.Since(begun)), "<nil> 1m0s")
		w.same("dial", fmt.Sprint(<-dialed, time.Since(begun)), "<nil> 2m0s")

		w.Stall("c1", "server", time.Hour)
		near.Close()
		w.same("no end yet", read(far, time.Minute), "late")
		w.Heal()
		w.same("the end", read(far, 0), "late")
		w.same("the end", read(far, time.Second), "EOF")
		w.same("after", time.Since(begun), 3*time.Minute)
	})
}

func TestTrickle(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		w.Trickle("server", "c1", time.Second)
		late, lateFar := w.pair("c1")
		for _, c := range [][2]net.Conn{{near, far}, {far, near}, {lateFar, late}} {
			begun := time.Now()
			write(c[0], strings.Repeat("x", 100))
			c[0].(telling).CloseWrite()
			sizes, all := map[int]bool{}, 0
			for {
				got := read(c[1], time.Second)
				if got == "EOF" {
					break
				}
				sizes[len(got)] = true
				if all += len(got); time.Since(begun) != time.Duration(all)*time.Millisecond && all < 100 {
					t.Errorf("%d bytes after %v", all, time.Since(begun))
				}
			}
			w.same("in all", all, 100)
			w.same("sizes", len(sizes) > 4 && !sizes[8], true)
		}
		w.Trickle("server", "c1", time.Second)
		near, far = w.pair("c1")
		begun := time.Now()
		write(near, strings.Repeat("x", 5000))
		far.SetReadDeadline(time.Time{})
		io.ReadFull(far, make([]byte, 5000))
		w.same("at once after it", time.Since(begun), time.Second)
	})
}

func TestVanish(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		idle, idleFar := w.pair("c1")
		write(far, "before")
		w.Vanish("c1", "server")
		begun := time.Now()
		time.Sleep(time.Minute)
		w.same("write", write(near, "x"), "ok")
		time.Sleep(time.Second)
		w.same("write", write(near, "y"), "ok")
		w.same("what had come", read(near, time.Second), "before")
		near.SetReadDeadline(time.Time{})
		_, err := near.Read(make([]byte, 1))
		w.same("read", brief(err), " dead")
		w.same("after", time.Since(begun), 90*time.Second)
		w.same("and then", read(near, time.Second)+" "+write(near, "x"), "EOF ok pipe")
		w.same("the other end", read(far, time.Second), "late")
		w.same("write", write(far, "x"), "ok")
		time.Sleep(31 * time.Second)
		w.same("write", write(far, "x"), "ok dead")
		w.same("idle", read(idle, 24*time.Hour)+" "+read(idleFar, time.Hour), "late late")
		idle.Close()
		w.same("its end is lost", read(idleFar, time.Hour), "late")

		near, far = w.pair("c1")
		w.same("a new one", write(near, "x")+read(far, time.Second), "okx")
		near.SetWriteDeadline(time.Now().Add(time.Second))
		w.Vanish("", "")
		n, err := near.Write(make([]byte, 1<<20))
		w.same("up to the window", fmt.Sprint(n, brief(err)), "262144 late")

		near, far = w.pair("c1")
		w.Vanish("c1", "server")
		w.Cut("c1", "server", 0)
		w.Half("c1", "server")
		w.Kill("server")
		w.same("nothing is heard any more", read(near, time.Second), "late")
		w.Revive("server")
		w.l = w.listen("server", 9000)

		near, far = w.pair("c1")
		w.KeepAlive = 10 * time.Second
		w.Vanish("c1", "server")
		w.same("kept alive", read(near, time.Minute)+" "+read(far, time.Minute), "dead dead")
	})
}

func TestRefusedAndHanging(t *testing.T) {
	inBubble(t, func(w world) {
		begun := time.Now()
		w.Refuse("server", time.Minute)
		_, err := w.dial("c1", 9000)
		w.same("refused", brief(err), " refused")
		time.Sleep(time.Minute)
		_, err = w.dial("c1", 9000)
		w.same("no more", err, nil)

		w.Hang("server", time.Minute)
		_, err = w.dial("c1", 9000)
		w.same("hangs", fmt.Sprint(err, time.Since(begun)), "<nil> 2m0s")

		w.Hang("server", time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = w.Dial("c1")(ctx, "tcp", "127.0.0.1:9000")
		timeout, _ := err.(net.Error)
		w.same("given up", fmt.Sprint(brief(err), timeout.Timeout(), time.Since(begun)), " latetrue 3m0s")
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		_, err = w.Dial("c1")(ctx, "tcp", "127.0.0.1:9000")
		w.same("given up", brief(err), " canceled")

		for _, c := range []struct {
			how  func()
			want string
		}{
			{w.Heal, ""},
			{func() { w.l.Close() }, " refused"},
		} {
			w.Hang("server", time.Hour)
			time.AfterFunc(time.Minute, c.how)
			_, err = w.dial("c1", 9000)
			w.same("ended", brief(err), c.want)
		}
	})
}

// TestKill is that a host without power is gone for its peers, and stays so for what it had before.
func TestKill(t *testing.T) {
	inBubble(t, func(w world) {
		old := w.Dial("server")
		there := w.listen("c1", 9001)
		near, far := w.pair("c1")
		write(far, "before")
		waiting, err := w.dial("c1", 9000)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error)
		go func() {
			w.l.Accept()
			_, err := w.l.Accept()
			accepted <- err
		}()
		synctest.Wait()
		hanging := make(chan error)
		w.Stall("server", "c1", time.Minute)
		go func() { _, err := old(context.Background(), "tcp", "127.0.0.1:9001"); hanging <- err }()
		synctest.Wait()

		w.Kill("server")
		w.same("what had come", read(near, time.Second)+" "+read(near, time.Second), "before reset")
		w.same("its own", read(far, time.Second)+" "+write(far, "lost")+" "+write(far, "lost"), "reset ok ok")
		w.same("waiting", read(waiting, time.Second), "reset")
		w.same("its dial", brief(<-hanging), " unreachable")
		w.same("open", w.Open("server"), 0)
		_, err = w.dial("c1", 9000)
		w.same("a dial to it", brief(err), " refused")
		_, err = w.Listen("server", 9000)
		w.same("it listens", brief(err), " not available")

		w.Revive("server")
		w.Heal()
		_, err = old(context.Background(), "tcp", "127.0.0.1:9001")
		w.same("its dial of before", brief(err), " unreachable")
		_, err = w.dial("server", 9001)
		w.same("a new one", err, nil)
		before := w.l
		w.l = w.listen("server", 9000)
		near, far2 := w.pair("c1")
		w.same("anew", write(near, "x")+read(far2, time.Second), "okx")
		w.same("its connection of before", read(far, time.Second)+" "+write(far, "lost"), "reset ok")
		select {
		case err := <-accepted:
			t.Errorf("accepted: %v", err)
		default:
		}
		before.Close()
		w.same("its listener of before", brief(<-accepted), " closed")
		w.pair("c1")
		there.Close()
	})
}

// TestEndOfAll is that Close wakes all that waits.
func TestEndOfAll(t *testing.T) {
	inBubble(t, func(w world) {
		near, far := w.pair("c1")
		a, _ := w.Pipe("c3", "p3")
		w.Stall("", "", time.Hour)
		w.Trickle("", "", 2*time.Hour)
		ended := make(chan error)
		for _, wait := range []func() error{
			func() error { _, err := near.Read(make([]byte, 1)); return err },
			func() error { _, err := far.Write(make([]byte, 1<<20)); return err },
			func() error { _, err := a.Read(make([]byte, 1)); return err },
			func() error { _, err := w.l.Accept(); return err },
			func() error { _, err := w.dial("c1", 9000); return err },
		} {
			go func() { ended <- wait() }()
		}
		synctest.Wait()
		w.Close()
		for range 5 {
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		}
		_, err := w.dial("c1", 9000)
		w.same("dial", brief(err), " unreachable")
	})
}

// TestWhatIsWrittenArrives whatever delays it, in order, and a part from the beginning if the connection is cut.
func TestWhatIsWrittenArrives(t *testing.T) {
	for seed := range uint64(100) {
		inBubble(t, func(w world) {
			r := rand.New(rand.NewPCG(seed, 1))
			var ends [4]net.Conn
			ends[0], ends[1] = w.pair("c1")
			ends[2], ends[3] = w.Pipe("c1", "server")
			cut := r.IntN(3) == 0
			var all sync.WaitGroup
			for i := range ends {
				sent := make([]byte, 1+r.IntN(20<<r.IntN(15)))
				for j := range sent {
					sent[j] = byte(r.Uint32())
				}
				pieces, reads := rand.New(rand.NewPCG(seed, uint64(2+2*i))), rand.New(rand.NewPCG(seed, uint64(3+2*i)))
				all.Go(func() {
					for left := sent; len(left) > 0; {
						n := 1 + pieces.IntN(len(left))
						if _, err := ends[i].Write(left[:n]); err != nil {
							if !cut {
								t.Errorf("seed %d: write: %v", seed, err)
							}
							return
						}
						left = left[n:]
						if pieces.IntN(3) == 0 {
							time.Sleep(time.Duration(pieces.IntN(100)) * time.Millisecond)
						}
					}
					if err := ends[i].(interface{ CloseWrite() error }).CloseWrite(); err != nil && !cut {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				all.Go(func() {
					var got []byte
					for {
						p := make([]byte, 1+reads.IntN(10000))
						n, err := ends[i^1].Read(p)
						got = append(got, p[:n]...)
						if err == nil {
							continue
						}
						if !bytes.HasPrefix(sent, got) || !cut && (len(got) < len(sent) || err != io.EOF) {
							t.Errorf("seed %d: %d bytes of %d: %v", seed, len(got), len(sent), err)
						}
						return
					}
				})
			}
			over := make(chan struct{})
			go func() { all.Wait(); close(over) }()
			for range 10 {
				time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
				switch d := time.Duration(r.IntN(500)) * time.Millisecond; r.IntN(6) {
				case 0:
					w.Stall("c1", "server", d)
				case 1, 2:
					w.Trickle("", "c1", d)
				case 3:
					w.Heal()
				case 4:
					if cut {
						w.Cut("server", "c1", r.IntN(10000))
					}
				}
			}
			if cut {
				w.Cut("", "", 0)
			}
			select {
			case <-over:
			case <-time.After(time.Hour):
				t.Fatalf("seed %d: not all has ended", seed)
			}
		})
	}
}

// TestClosedByBoth is that nothing is kept of a connection of which both ends are closed.
func TestClosedByBoth(t *testing.T) {
	inBubble(t, func(w world) {
		for _, fault := range []func(){func() {}, func() { w.Stall("", "", time.Minute) }, func() { w.Vanish("", "") }, func() { w.Kill("c1"); w.Revive("c1") }} {
			near, far := w.pair("c1")
			w.Trickle("", "", time.Minute)
			fault()
			write(near, "hello")
			write(far, "hello")
			near.Close()
			far.Close()
			w.same("links", len(w.links), 0)
			w.Heal()
		}
	})
}

// BenchmarkConnections is what a connection costs, with a request and an answer on it, beside others.
func BenchmarkConnections(b *testing.B) {
	for _, many := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			n := New(false)
			defer n.Close()
			l, _ := n.Listen("server", 9000)
			p := make([]byte, 1000)
			for i := 0; b.Loop(); i++ {
				all := make([]net.Conn, 0, 2*many)
				for range many {
					near, _ := n.Dial("c1")(context.Background(), "tcp", "127.0.0.1:9000")
					far, _ := l.Accept()
					all = append(all, near, far)
					near.Write(p)
					far.Read(p)
					far.Write(p)
					near.Read(p)
				}
				for _, c := range all {
					c.Close()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/conn")
		})
	}
}
