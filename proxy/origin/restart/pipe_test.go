package restart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestProcessThatEndsWhileItsPipeIsClosed: that recall has noticed the end of the session first, does not matter to the reader.
func TestProcessThatEndsWhileItsPipeIsClosed(t *testing.T) {
	for _, most := range []int{0, 5} {
		r := &Pipe{state: processGone, ready: make(chan struct{}), backoff: pipes.Backoff{Max: most}}
		close(r.ready)
		if r.noteEnd(io.EOF) || r.state != processGone {
			t.Errorf("at most %d restarts: the state is %d, and another process is started", most, r.state)
		}
	}
}

// posting is a connection that calls send with each message.
type posting struct {
	upstream.Conn
	send func() error
}

func (p *posting) Send(context.Context, *upstream.Outgoing) (upstream.Stream, error) {
	return nil, p.send()
}

// TestWhatMayBeRepeatedOutlivesALostSession: the stream of a session over HTTP+SSE ends while a message is posted. A list is sent in
// the next session, and does not fail with the other open requests. A call does, because the server may have it.
func TestWhatMayBeRepeatedOutlivesALostSession(t *testing.T) {
	lost := &upstream.Error{Op: "read", Addr: "host:1", Err: fmt.Errorf("%w: the connection was dead", upstream.ErrLost)}
	cfg, none := config.Default(), func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(16<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	t.Cleanup(h.Wait)
	key := string(wire.AppendIDKey(nil, []byte("7")))
	for _, repeats := range []bool{false, true} {
		r := &Pipe{host: h, remote: true, life: t.Context(), backoff: pipes.Backoff{Max: 5}, exempted: map[string]int{}, kick: make(chan struct{}, 1)}
		sent := 0
		next := &posting{send: func() error { sent++; return nil }}
		r.conn = &posting{send: func() error { // as Events does
			r.noteEnd(lost)
			if held := r.isExempt(key); held != repeats {
				t.Errorf("repeats is %t: held is %t", repeats, held)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conn, r.state = next, processRuns
			close(r.ready)
			return lost
		}}
		_, err := r.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"m"}`), Request: true, Repeats: repeats})
		if _, restarted := errors.AsType[*pipes.RestartError](err); restarted == repeats || (sent == 1) != repeats || r.isExempt(key) {
			t.Errorf("repeats is %t: %v, sent %d times in the next session, still held: %t", repeats, err, sent, r.isExempt(key))
		}
	}
}

// TestRequestThatOutlivesItsSession: what was accepted just before the session was lost fails, and does not wait for an answer.
func TestRequestThatOutlivesItsSession(t *testing.T) {
	r := &Pipe{remote: true, life: t.Context(), backoff: pipes.Backoff{Max: 5}, exempted: map[string]int{}}
	r.conn = &posting{send: func() error { r.noteEnd(upstream.ErrLost); return nil }}
	_, err := r.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"m"}`), Request: true, Repeats: true})
	if again, ok := errors.AsType[*pipes.RestartError](err); !ok || again.Err != upstream.ErrLost {
		t.Errorf("%v", err)
	}
}

// TestAnswerToAnEndedProcess: an answer that waits until messages may be sent is for the process whose request it answers. If that has
// ended, or ends meanwhile, the next one does not get it. Other messages wait for that.
func TestAnswerToAnEndedProcess(t *testing.T) {
	cfg, none := config.Default(), func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(16<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	t.Cleanup(h.Wait)
	for _, tt := range []struct {
		name, body string
		before     processState
		ends       bool
		want       int // how many messages are sent
	}{
		{"of the one that has ended", `{"jsonrpc":"2.0","id":7,"result":{}}`, processStarts, true, 0},
		{"of the one that is told what the last one knew", `{"jsonrpc":"2.0","id":7,"result":{}}`, processRecalls, false, 1},
		{"of that one, which ends", `{"jsonrpc":"2.0","id":7,"result":{}}`, processRecalls, true, 0},
		{"no answer", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, processStarts, true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			count := func() error { sent++; return nil }
			r := &Pipe{host: h, life: t.Context(), state: tt.before, ready: make(chan struct{}), exempted: map[string]int{}, kick: make(chan struct{}, 1), conn: &posting{send: count}}
			done := make(chan error)
			go func() {
				_, err := r.Send(t.Context(), &upstream.Outgoing{Body: []byte(tt.body)})
				done <- err
			}()
			synctest.Wait()
			r.mu.Lock()
			if r.state = processRuns; tt.ends {
				r.conn = &posting{send: count}
			}
			close(r.ready)
			r.mu.Unlock()
			if err := <-done; err != nil || sent != tt.want {
				t.Errorf("%s: %v, sent %d times, want %d", tt.name, err, sent, tt.want)
			}
		})
	}
}
