package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	progressPause = 250 * time.Millisecond // between two calls of Progress
	progressRunes = 200                    // of an item's text
	maxNewest     = 4 << 10                // bytes of an item that are read for progress
	defaultIdle   = 30 * time.Second       // the longest time between two parts of such an answer
)

// errIdle ends an answer of which no further part arrives.
var errIdle = errors.New("no further data within the time limit")

// arriving reads an answer that arrives item by item.
type arriving struct {
	body io.Reader
	how  *file.Answer
	tell Progress // nil if no progress is reported
	now  func() time.Time
	most time.Duration // the longest time between two parts
	idle *time.Timer

	line, data []byte // the beginning of the current line and, for an event, of its data
	items      int
	told       time.Time // of the last call of tell
}

// arrive returns a reader of body that reports progress. If no part arrives for too long, it
// calls cancel with errIdle. The caller must call end after reading.
func arrive(o *Outgoing, body io.Reader, cancel context.CancelCauseFunc, opt Options) (a *arriving, end func()) {
	a = &arriving{body: body, how: o.Stream, now: opt.Now, most: cmp.Or(opt.Idle, defaultIdle)}
	a.idle = time.AfterFunc(a.most, func() { cancel(errIdle) })
	if tell := o.Progress; tell != nil {
		a.tell = func(items int, newest string) {
			tell(items, clean.Text(clean.MaskKnown(newest, o.Secrets), progressRunes))
		}
	}
	return a, func() { a.idle.Stop() }
}

func (a *arriving) Read(p []byte) (int, error) {
	a.idle.Reset(a.most)
	n, err := a.body.Read(p)
	a.idle.Stop() // a slow progress receiver is not an idle API
	if a.tell != nil {
		a.look(p[:n])
	}
	return n, err
}

// look finds the items that end in part, and reports them.
func (a *arriving) look(part []byte) {
	for len(part) > 0 {
		text, rest, ended := bytes.Cut(part, []byte{'\n'})
		a.line = append(a.line, text[:min(len(text), maxNewest-len(a.line))]...)
		if part = rest; !ended {
			return
		}
		line := bytes.TrimRight(a.line, "\r")
		if a.how.As == file.ReadLines {
			a.item(line)
		} else if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			a.data = append(a.data, data[:min(len(data), maxNewest-len(a.data))]...)
		} else if len(line) == 0 {
			a.item(a.data)
			a.data = a.data[:0]
		}
		a.line = a.line[:0]
	}
}

func (a *arriving) item(raw []byte) {
	if raw = wire.Trim(raw); len(raw) == 0 || string(raw) == "[DONE]" {
		return
	}
	a.items++
	now := a.now()
	if now.Sub(a.told) < progressPause {
		return
	}
	a.told = now
	text := string(raw)
	if len(a.how.Join) > 0 {
		text = ""
		if wire.Valid(raw) {
			if v := lookup(raw, a.how.Join[0]); v != nil && wire.KindOf(v) == wire.String {
				text = string(wire.Unquoted(v))
			}
		}
	}
	a.tell(a.items, text)
}
