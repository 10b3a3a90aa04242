package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// output is the Stream of what a child writes to its standard output.
type output struct {
	Plain
	child   *Child
	ctx     context.Context
	unwatch func() bool
	lines   *lines.Reader
	count   int // lines so far
	spread  spread
	keys    secret.Lines // of the lines that are no message

	err error // the error with which the stream has ended

	once sync.Once
	done chan struct{} // closed by Close
	mu   sync.Mutex    // held while a line is read, and by Forget of the last one
}

// Listen returns the one Stream of the child's messages. It ends with an *ExitError when
// the child ends. A line over the limit is an *Error that wraps a *TooLargeError, after
// which others may follow.
//
// While no caller reads the Stream, the child may have to wait with its output.
func (c *Child) Listen(ctx context.Context, _ ListenOptions) (Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.listening.Swap(true) {
		return nil, fmt.Errorf("upstream %q: %w", c.name, errListenTwice)
	}
	o := &output{child: c, ctx: ctx, done: make(chan struct{})}
	o.lines = lines.NewReader(o, c.maxMessage)
	if c.memory != nil {
		from := c.memory.Lender(ctx, pipeWait)
		o.lines = lines.NewReaderIn(&from, o, c.maxMessage)
	}
	o.unwatch = context.AfterFunc(ctx, func() { c.process.Out.Close() })
	return o, nil
}

// Read reads from the pipe. What the child wrote before its end can still be read after
// it.
func (o *output) Read(p []byte) (int, error) {
	select {
	case <-o.child.exited:
		setReadDeadline(o.child.process.Out, time.Now().Add(drainTime))
	default:
	}
	return o.child.process.Out.Read(p)
}

// Events implements Stream.
func (o *output) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := o.event(); !yield(e, err) || err != nil && !skipped(err) {
			return
		}
	}
}

// event reads the next message.
func (o *output) event() (sse.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil {
		text, err := o.lines.Next()
		o.child.input.heard.Add(1)
		var (
			long   *lines.TooLongError
			within bool
			whole  *SpreadError
		)
		if o.count++; err == nil {
			within, whole = o.spread.line(text, o.count, o.child.maxMessage)
		}
		switch {
		case o.given() != nil:
			o.err = o.given()
		case errors.As(err, &long):
			return sse.Event{}, &Error{Op: "read", Addr: o.child.name, Err: tooLarge(long.Limit, true, &long.Message, long.NoRoom)}
		case err != nil:
			o.err = o.end()
		case whole != nil:
			o.child.noise.spoken.Store(true)
			whole.Begins = o.child.quote(whole.Begins)
			return sse.Event{}, &Error{Op: "read", Addr: o.child.name, Err: whole}
		case !within && isMessage(text):
			o.child.noise.spoken.Store(true)
			return sse.Event{Data: text}, nil
		default:
			o.err = o.skip(text)
		}
	}
	o.lines.Forget()
	return sse.Event{}, o.err
}

// isMessage reports whether a line may be JSON-RPC: one message or a batch. Lines of logs often begin with a time or a level
// in brackets, or are JSON.
func isMessage(text []byte) bool {
	text, _ = wire.TrimMark(text)
	text = bytes.TrimLeft(text, " \t")
	if batch, is := bytes.CutPrefix(text, []byte("[")); is {
		batch = bytes.TrimLeft(batch, " \t")
		return len(batch) > 0 && (batch[0] == '{' || batch[0] == '[' || batch[0] == ']') && !isLogLine(text)
	}
	return len(text) > 0 && text[0] == '{' && !isLogLine(text)
}

// isLogLine reports whether a line is an object without jsonrpc that has two of the members of loggers, whatever else it has, or an
// array of such objects.
func isLogLine(text []byte) bool {
	if isNamed(text) || !gjson.ValidBytes(text) {
		return false
	}
	line := gjson.ParseBytes(text)
	all := []gjson.Result{line}
	if line.IsArray() {
		all = line.Array()
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(m gjson.Result) bool {
		known := 0
		m.ForEach(func(name, _ gjson.Result) bool {
			if slices.Contains(envelope.LogMembers, name.String()) {
				known++
			}
			return known < 2
		})
		return !m.IsObject() || known < 2 || m.Get("jsonrpc").Exists()
	})
}

// isNamed reports whether an object surely has the member jsonrpc: near its beginning, or near its end, as the TypeScript SDK writes
// it. It is a short look, since each message is looked at.
func isNamed(text []byte) bool {
	const name, near = `"jsonrpc":`, 96
	begin := text[1:min(len(text), near)]
	if at := bytes.Index(begin, []byte(name)); at >= 0 && !bytes.ContainsAny(begin[:at], "{[") {
		return true
	}
	end := bytes.TrimRight(text[max(0, len(text)-near):], " \t\r\n")
	at := bytes.LastIndex(end, []byte(name))
	return at >= 0 && bytes.IndexAny(end[at:], "{}[]") == len(end)-at-1 && end[len(end)-1] == '}'
}

// skip counts a line that is not a message. It returns an error if there were too many.
func (o *output) skip(text []byte) error {
	shown := withoutKeys(&o.keys, text)
	if len(shown) == 0 && len(text) > 0 {
		shown = []byte(secret.Struck)
	} else if o.child.skipped != nil {
		o.child.skipped(beginning(shown))
	}
	if o.child.noise.add(shown) {
		return nil
	}
	err := o.child.noise.error(o.child.quote)
	o.child.fail(err)
	return &Error{Op: "read", Addr: o.child.name, Err: err}
}

// end stops the child, which will write no more, and waits for its end.
func (o *output) end() error {
	o.child.stop(errClosedOut)
	select {
	case <-o.child.exited:
		return o.child.ended()
	case <-o.done:
		return ErrClosed
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}

// given returns why this side reads no more, or nil.
func (o *output) given() error {
	select {
	case <-o.done:
		return ErrClosed
	default:
		return o.ctx.Err()
	}
}

// Close implements Stream. The child itself goes on, and finds its standard output
// closed.
func (o *output) Close() error {
	o.once.Do(func() {
		close(o.done)
		o.unwatch()
		o.child.process.Out.Close()
		if o.mu.TryLock() { // otherwise Events does it
			o.lines.Forget()
			o.mu.Unlock()
		}
	})
	if mute := o.child.Mute(); mute != nil {
		return mute
	}
	return nil
}
