package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// strict is a connection on which each Read takes a while. It records how far away the
// deadline was.
type strict struct {
	script
	takes    time.Duration
	deadline time.Time
	ahead    []time.Duration
}

func (s *strict) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *strict) Read(p []byte) (int, error) {
	s.ahead = append(s.ahead, time.Until(s.deadline))
	if time.Sleep(s.takes); time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.script.Read(p)
}

func TestEveryByteRestartsTheSilenceTimeout(t *testing.T) {
	const (
		head     = eventHead + "\r\n"
		comment  = ": still there\n\n"
		comments = 20
	)
	body := strings.Repeat(comment, comments) + "data: " + answer + "\n\n"
	for _, c := range []struct {
		name               string
		message            Outgoing
		firstByte, silence time.Duration
	}{
		{"as configured", Outgoing{}, time.Hour, 2 * time.Hour},
		{"of the message", Outgoing{FirstByte: 3 * time.Hour, Silence: 4 * time.Hour}, 3 * time.Hour, 4 * time.Hour},
		{"one of them", Outgoing{Silence: 4 * time.Hour}, time.Hour, 4 * time.Hour},
	} {
		each := func(t *testing.T, takes time.Duration) {
			h := newHTTP(t, HTTPConfig{URL: "http://server", FirstByteTimeout: time.Hour, IdleTimeout: 2 * time.Hour})
			sizes := append([]byte{byte(len(head))}, bytes.Repeat([]byte{byte(len(comment))}, comments)...)
			wire := &strict{takes: takes, script: script{rest: []byte(head + body), sizes: append(sizes, 0)}}
			h.pool.dial = func(context.Context) (*conn, error) { return newConn(wire, wire), nil }
			m := c.message
			m.Body, m.Request = []byte(ping), true
			st, err := h.Session("", "").Send(t.Context(), &m)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			wantNext(t, st, answer)
			if _, err := First(st); err != io.EOF {
				t.Errorf("ended with %v", err)
			}
			if len(wire.ahead) < comments {
				t.Fatalf("%d reads", len(wire.ahead))
			}
			for i, got := range wire.ahead {
				want := c.silence
				if i == 0 {
					want = c.firstByte
				}
				if got < want || got > want+want/8 {
					t.Errorf("read %d may take %v, want %v", i, got, want)
				}
			}
		}
		for _, takes := range []time.Duration{time.Millisecond, time.Minute, 59 * time.Minute} {
			t.Run(fmt.Sprint(c.name, ", a byte each ", takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { each(t, takes) })
			})
		}
	}
}

func TestLimitsOfAMessage(t *testing.T) {
	const short = 50 * time.Millisecond
	for _, c := range places {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			h := newHTTP(t, HTTPConfig{URL: serveSilent(t, c.reply).url()})
			m := Outgoing{Body: []byte(ping), Request: true, FirstByte: short, Silence: patience}
			if strings.Contains(c.late, "further") {
				m.FirstByte, m.Silence = patience, short
			}
			st, err := h.Session("", "").Send(t.Context(), &m)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for err == nil {
				_, err = First(st)
			}
			var e *Error
			if !errors.As(err, &e) || !e.Timeout() || !strings.HasSuffix(err.Error(), c.late+" 50ms") {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
