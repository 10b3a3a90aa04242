package modernclient

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// openCall is a call that the server has not answered yet. Its messages may come on the standing stream, or on the stream of
// another request.
type openCall interface {
	waits() bool                                                  // a request of the client waits for the response
	accept(list []crossing.Question) (others []crossing.Question) // asks the client, and returns what is too much
	askFirst(list []crossing.Question)                            // asks the client before anything else what was asked before the call
	withdraw(question string)                                     // does not ask the client a question, or knows no answer to it any more
	notify(m *wire.Message, body []byte)
	lacks(required []byte)              // notes that the client lacks a capability
	hasProgressToken(token string) bool // the server got this token for the call
	logLevel() mcp.LogLevel             // of the log messages that the client wants
}

// openCalls are the open calls of a session, and the questions that no call could take.
type openCalls struct {
	mu           sync.Mutex
	all          []openCall
	mayAsk       []openCall          // those in which the server may ask, oldest first
	joined       int                 // how many calls have been in mayAsk
	lent         int                 // how many goroutines use calls that lend or about has returned
	unattributed []crossing.Question // asked while no call was open that may ask; bounded
}

// join adds a call, before it is sent. If the server may ask in it, the caller gives it the questions that join returns, which
// have waited for such a call.
func (o *openCalls) join(d openCall, mayAsk bool) (waited []crossing.Question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.all, d) {
		o.all = append(o.all, d)
	}
	if mayAsk {
		o.mayAsk = append(o.mayAsk, d)
		o.joined++
		waited, o.unattributed = o.unattributed, nil
	}
	return waited
}

// leave removes a call, and reports whether nothing can come to d from here any more.
func (o *openCalls) leave(d openCall) (alone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = slices.DeleteFunc(o.all, func(other openCall) bool { return other == d })
	o.mayAsk = slices.DeleteFunc(o.mayAsk, func(other openCall) bool { return other == d })
	return o.lent == 0
}

// lend returns the open calls in which the server may ask, oldest first, and how many there have been. Until the caller calls
// giveBack, none of them is used for another request.
func (o *openCalls) lend() (calls []openCall, joined int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lent++
	return slices.Clone(o.mayAsk), o.joined
}

// giveBack says that what lend or about has returned is no longer used.
func (o *openCalls) giveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lent--
}

// about returns the call that a notification on the standing stream belongs to, or nil. In both cases the caller calls
// giveBack. A progress notification names the call's token. A log message belongs to the call that asked for log messages,
// if there is only one. For a server on a pipe, lanes has attributed log messages when they arrived.
func (o *openCalls) about(m *wire.Message, piped bool) openCall {
	o.mu.Lock()
	o.lent++
	var newest openCall
	if n := len(o.mayAsk); n > 0 {
		newest = o.mayAsk[n-1]
	}
	all := slices.Clone(o.all)
	o.mu.Unlock()
	switch m.Method {
	case wire.Progress:
		token := gjson.Get(wire.View(m.Params()), "progressToken").String()
		for _, d := range all {
			if d.hasProgressToken(token) {
				return d
			}
		}
		return nil
	case wire.LogMessage:
		if piped {
			return nil
		}
		var only openCall
		for _, d := range all {
			switch {
			case d.logLevel() == mcp.NoLogLevel:
			case only != nil:
				return nil
			default:
				only = d
			}
		}
		return only
	}
	return newest
}

// keep keeps questions for the next call, as many as there is room for. It keeps none, and returns false, if a call has joined
// since lend has returned this number.
func (o *openCalls) keep(list []crossing.Question, joined int) (kept, refused []crossing.Question, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.joined != joined {
		return nil, nil, false
	}
	room := min(max(maxLoose-len(o.unattributed), 0), len(list))
	o.unattributed = append(o.unattributed, list[:room]...)
	return slices.Clone(list[:room]), list[room:], true
}

// withdraw removes a question that waits for a call, and reports whether it did. It returns the open calls, any of which may have the
// question; the caller calls giveBack.
func (o *openCalls) withdraw(question string) (calls []openCall, waited bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lent++
	n := len(o.unattributed)
	o.unattributed = slices.DeleteFunc(o.unattributed, func(q crossing.Question) bool { return string(q.ID) == question })
	return slices.Clone(o.all), len(o.unattributed) < n
}

// maxLoose is how many questions of a session wait for a call.
const maxLoose = 16

// take removes and returns those of the questions that still wait for a call.
func (o *openCalls) take(list []crossing.Question) (taken []crossing.Question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unattributed = slices.DeleteFunc(o.unattributed, func(q crossing.Question) bool {
		is := slices.ContainsFunc(list, func(o crossing.Question) bool { return &o.ID[0] == &q.ID[0] })
		if is {
			taken = append(taken, q)
		}
		return is
	})
	return taken
}

// If a call requires the user to open URLs, the server sends a notification when each has been
// opened. It may come before the client repeats the call, or a little later, since the user may
// answer before the page behind the URL has reached the server. dragoman waits for it before it
// sends the call again. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation.

// pendingURLs holds, by the call that waits for them, the URLs of a session that users have to open. A call is here as long
// as it waits.
type pendingURLs struct {
	mu     sync.Mutex
	byCall map[openCall]*callURLs // nil before the first one
}

type callURLs struct {
	ids map[string]bool // elicitationIds
	all chan struct{}   // closed when no URL is left
}

// expect begins to wait for the URLs in the server's error.
func (p *pendingURLs) expect(d openCall, list gjson.Result) {
	u := &callURLs{ids: map[string]bool{}, all: make(chan struct{})}
	list.ForEach(func(_, e gjson.Result) bool {
		if id := e.Get("elicitationId"); id.Type == gjson.String && len(u.ids) < crossing.MaxQuestions {
			u.ids[strings.Clone(id.String())] = true
		}
		return true
	})
	if len(u.ids) == 0 {
		close(u.all)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byCall == nil {
		p.byCall = make(map[openCall]*callURLs)
	}
	p.byCall[d] = u
}

// opened handles a notifications/elicitation/complete.
func (p *pendingURLs) opened(notification []byte) {
	id := gjson.GetBytes(notification, "params.elicitationId").String()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.byCall {
		if !u.ids[id] {
			continue
		}
		if delete(u.ids, id); len(u.ids) == 0 {
			close(u.all)
		}
	}
}

// await waits until the server has confirmed that all URLs of d were opened, but not longer than limit, and not when life
// ends.
func (p *pendingURLs) await(ctx, life context.Context, d openCall, limit time.Duration) {
	p.mu.Lock()
	u := p.byCall[d]
	p.mu.Unlock()
	if u == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.all:
	case <-timer.C:
	case <-ctx.Done():
	case <-life.Done():
	}
}

// forget ends the wait of d. It reports whether d waited.
func (p *pendingURLs) forget(d openCall) (waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, waited = p.byCall[d]
	delete(p.byCall, d)
	return waited
}

// calls returns how many calls wait.
func (p *pendingURLs) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byCall)
}
