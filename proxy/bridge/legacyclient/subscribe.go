package legacyclient

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Over HTTP, each request for subscriptions is a connection that stays open, and its resources are fixed. So what a client
// subscribes to begins in a request of its own, whose acknowledgement says whether the server accepts it, and soon a request for the
// resources of several takes their place. On a pipe, where requests are no connections, each resource keeps its own: a server may
// count the subscriptions of all requests on a pipe as one (the Go SDK does, up to 1.8.0 at least). See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions.

const (
	// maxNamedBytes is the size of the URIs in one request: servers bound their messages.
	maxNamedBytes = 64 << 10
	// fewWatches is how many requests for subscriptions are left alone, and someWatches how many there may be if some of them can be
	// replaced by one. There are never more than maxWatches.
	fewWatches, someWatches, maxWatches = 2, 6, 10
	// idleNames is how long the server keeps resources that nothing is subscribed to any more, in a request that names others.
	idleNames = time.Second
	// mergePause is how long subscriptions stay as they are after the server has not accepted one that replaces them.
	mergePause = 5 * time.Second
)

// subscribe subscribes to a resource, and returns when the server has accepted that.
func (c *Conn) subscribe(ctx context.Context, uri string, header []mcp.Header) error {
	if err := c.mustOffer(ctx, "resources.subscribe", wire.ResourcesSubscribe, header); err != nil {
		return err
	}
	uri = strings.Clone(uri) // it is part of a message that may be large
	left := false
	done := make(chan error, 1)
	c.mu.Lock()
	s := &c.subs
	s.header = header
	_, already := s.watched[uri]
	total, bytes := len(s.watched)+len(s.wishes), s.bytes+watchedSize(uri)
	for _, w := range s.wishes {
		bytes += watchedSize(w.uri)
	}
	switch {
	case already || c.rejoin(uri):
		c.mu.Unlock()
		return nil
	case total >= maxWatched || bytes > pipes.MaxSubscriptions || len(uri) > maxNamedBytes:
		c.mu.Unlock()
		return errTooMany()
	}
	c.wishFor(&wish{uri: uri, wanted: func() bool { return !left }, done: func(err error) { done <- err }})
	c.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		left = true
		return context.Cause(ctx)
	}
}

func errTooMany() error {
	return mcp.Saying(mcp.CodeInternal, "too many subscriptions: end others with resources/unsubscribe first")
}

// hold counts a resource that the session subscribes to from now on. c.mu must be held.
func (c *Conn) hold(uri string, w *watch) error {
	if _, there := c.subs.watched[uri]; !there {
		n := watchedSize(uri)
		if err := c.kept.Keep(n); err != nil {
			return err
		}
		c.subs.bytes += n
	}
	c.subs.watched[uri] = w
	return nil
}

// unhold is called when the session is not subscribed to a resource any more. c.mu must be held.
func (c *Conn) unhold(uri string) {
	if _, there := c.subs.watched[uri]; there {
		n := watchedSize(uri)
		c.subs.bytes -= n
		c.kept.Drop(n)
		delete(c.subs.watched, uri)
	}
}

// watchedSize returns how many bytes a subscription takes: the URI is in two requests while one replaces the other, in what each has
// granted, in the notification for a gap, and names it.
func watchedSize(uri string) int { return 6*len(uri) + pipes.SubscriptionOverhead }

// rejoin subscribes to a resource that a request names although nothing is subscribed to it any more. c.mu must be held.
func (c *Conn) rejoin(uri string) bool {
	for _, w := range c.subs.watches {
		if w.names[uri] && (w.in == nil || w.in.to != nil && w.in.to != w && w.in.to.names[uri]) {
			return c.hold(uri, w) == nil
		}
	}
	return false
}

// wishFor adds a subscription that is to begin. c.mu must be held.
func (c *Conn) wishFor(w *wish) {
	c.subs.wishes = append(c.subs.wishes, w)
	c.tend()
}

// settle ends a wish. w has been granted, unless err says why not. c.mu must be held.
func (c *Conn) settle(one *wish, w *watch, err error) {
	c.subs.wishes = slices.DeleteFunc(c.subs.wishes, func(other *wish) bool { return other == one })
	if err == nil && one.wanted() {
		err = c.hold(one.uri, w)
	}
	if f, ok := errors.AsType[*mcp.Failure](err); ok { // each gets the id of its request
		own := *f
		err = &own
	}
	one.done(err)
}

func (c *Conn) unsubscribe(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.subs
	c.unwant(uri)
	for _, one := range s.wishes {
		if one.uri == uri {
			one.wanted = func() bool { return false }
		}
	}
	w := s.watched[uri]
	c.unhold(uri)
	switch {
	case w == nil || w.in != nil: // then there is no more, or another request takes its place soon
	case c.owned(w) == 0:
		c.drop(w)
	case !s.tidying:
		s.tidying = true
		c.host.Spawn(func() {
			err := pipes.Sleep(w.ctx, idleNames)
			c.mu.Lock()
			defer c.mu.Unlock()
			if s.tidying = false; err == nil {
				c.merge(true)
			}
		})
	}
}

// unwant notes that a subscription of another replica has begun, or is not wanted any more. c.mu must be held.
func (c *Conn) unwant(uri string) {
	c.shared.wanted = slices.DeleteFunc(c.shared.wanted, func(other string) bool { return other == uri })
}

// Unwatch ends all subscriptions to resources.
func (c *Conn) Unwatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range slices.Clone(c.subs.watches) {
		c.drop(w)
	}
	for _, one := range c.subs.wishes {
		one.wanted = func() bool { return false }
	}
	for uri := range c.subs.watched {
		c.unhold(uri)
	}
}

// owned returns how many subscriptions w has. c.mu must be held.
func (c *Conn) owned(w *watch) (n int) {
	for name := range w.names {
		if c.subs.watched[name] == w {
			n++
		}
	}
	return n
}

// drop ends a request. c.mu must be held.
func (c *Conn) drop(w *watch) {
	w.stop()
	c.subs.watches = slices.DeleteFunc(c.subs.watches, func(other *watch) bool { return other == w })
}

// tend begins what is wished, unless that is under way. c.mu must be held.
func (c *Conn) tend() {
	if s := &c.subs; len(s.wishes) > 0 && !s.tending {
		s.tending = true
		c.host.Spawn(c.begins)
	}
}

// begins begins what is wished, all that is there at one time with one request if the server accepts that. It ends if there is
// nothing more, or if that has to wait for a merge.
func (c *Conn) begins() {
	s := &c.subs
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { s.tending = false }()
	if c.reach != ByHTTP {
		for _, one := range s.wishes {
			if !one.sent {
				one.sent = true
				c.host.Spawn(func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.ask([]*wish{one})
				})
			}
		}
		return
	}
	for len(s.wishes) > 0 {
		switch n := len(s.watches); {
		case n >= someWatches && (s.merging || c.merge(false)):
			return // which tends the wishes when it is done
		case n >= maxWatches-1:
			for _, one := range slices.Clone(s.wishes) {
				c.settle(one, nil, errTooMany())
			}
			return
		}
		var list []*wish
		bytes := 0
		for _, one := range s.wishes[:min(len(s.wishes), s.most, s.atOnce)] {
			if bytes += len(one.uri); bytes <= maxNamedBytes {
				list = append(list, one)
			}
		}
		c.ask(list)
		if len(s.watches) > fewWatches {
			c.merge(false)
		}
	}
}

// ask asks for subscriptions with one request, and settles them as far as the answer says what the server accepts. c.mu must be held,
// and is unlocked meanwhile.
func (c *Conn) ask(list []*wish) {
	s := &c.subs
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.uri
	}
	w := c.newWatch(names)
	c.mu.Unlock()
	granted, err := w.begin()
	if err != nil {
		w.end()
		w.stop()
	}
	c.mu.Lock()
	w.grant(names, granted)
	if len(list) > 1 && len(w.names) == 0 && (err == nil || isRefusal(err)) { // perhaps because of one of them
		if s.atOnce = len(list) / 2; err == nil {
			c.host.Spawn(func() { w.end(); w.stop() })
		}
		return
	}
	s.atOnce = min(2*s.atOnce, maxWatched)
	if err != nil {
		for _, one := range list {
			c.settle(one, nil, err)
		}
		return
	}
	s.watches = append(s.watches, w)
	var rest []*wish
	bounded := false
	for _, one := range list {
		switch {
		case !w.names[one.uri]:
			rest = append(rest, one)
			continue
		case one.before > 0: // alone, or with fewer others, the server accepts it
			s.most, bounded = min(s.most, one.before), true
		}
		c.settle(one, w, nil)
	}
	for _, one := range rest {
		if len(w.names) == 0 || one.before > 0 && !bounded {
			c.settle(one, nil, mcp.Saying(mcp.CodeInvalidParams, "Subscription not accepted: "+one.uri))
		} else {
			one.before = len(w.names)
		}
	}
	if c.owned(w) == 0 {
		c.drop(w)
	}
	c.host.Spawn(func() { c.follow(w) })
}

// isRefusal reports whether the server has answered that it does not accept what a request names.
func isRefusal(err error) bool {
	f, ok := errors.AsType[*mcp.Failure](err)
	return ok && f.Cause == mcp.Untranslatable && f.Code != mcp.CodeInternal
}

// newWatch returns a request for subscriptions that was not sent. c.mu must be held.
func (c *Conn) newWatch(names []string) *watch {
	life, stop := context.WithCancel(c.life)
	free := context.AfterFunc(c.host.Draining, stop)
	what := wire.AppendStrings([]byte(`"notifications":{"resourceSubscriptions":`), names)
	return &watch{
		listenRequest: listenRequest{c: c, ctx: life, what: string(append(what, '}')), can: c.can, header: c.subs.header},
		stop:          func() { stop(); free() },
	}
}

// grant notes which of the resources that w names the server has acknowledged.
func (w *watch) grant(asked []string, acknowledged gjson.Result) {
	said := make(map[string]bool, len(asked))
	acknowledged.Get("notifications.resourceSubscriptions").ForEach(func(_, v gjson.Result) bool {
		said[v.String()] = v.Type == gjson.String
		return true
	})
	w.names = make(map[string]bool, len(asked))
	for _, name := range asked {
		if said[name] {
			w.names[name] = true
		}
	}
}

// follow forwards the updates of a request until it ends.
func (c *Conn) follow(w *watch) {
	defer w.end()
	for m := range notifications(w.st) {
		if c.counts(w, m) {
			c.enqueue(m.Raw, w.header)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	w.listenRequest.drop() // there is nothing to cancel
	c.bridge.results.Unheard(c.realm)
	c.drop(w)
	if h := w.in; h != nil {
		if len(h.lost) == 0 {
			close(h.broken)
		}
		h.lost[w] = true
		return
	}
	c.lose(w)
}

// lose notes that the subscriptions of a request have to begin again. c.mu must be held.
func (c *Conn) lose(w *watch) {
	lost := false
	for name := range w.names {
		if c.subs.watched[name] == w {
			c.subs.watched[name], lost = nil, true
		}
	}
	if lost {
		c.restore()
	}
}

// merge replaces some requests by one, if that is possible now, and reports whether that has begun. With tidy it also replaces one
// that names resources that nothing is subscribed to. c.mu must be held.
func (c *Conn) merge(tidy bool) bool {
	s := &c.subs
	if c.reach != ByHTTP || s.merging || time.Now().Before(s.pause) || c.life.Err() != nil || c.host.Draining.Err() != nil {
		return false
	}
	all := make(map[*watch][]string, len(s.watches))
	for name, w := range s.watched {
		if w != nil {
			all[w] = append(all[w], name)
		}
	}
	inOrder := slices.SortedFunc(slices.Values(s.watches), func(a, b *watch) int { return cmp.Compare(len(all[a]), len(all[b])) })
	var from []*watch
	var names []string
	bytes := 0
	for _, w := range inOrder {
		for _, name := range all[w] {
			bytes += len(name)
		}
		if len(names)+len(all[w]) > s.most || bytes > maxNamedBytes {
			break
		}
		from, names = append(from, w), append(names, all[w]...)
	}
	if len(from) < 2 || len(s.watches) <= fewWatches {
		i := slices.IndexFunc(inOrder, func(w *watch) bool { return len(w.names) > len(all[w]) })
		if !tidy || i < 0 {
			return false
		}
		from, names = inOrder[i:i+1], all[inOrder[i]]
	}
	slices.Sort(names)
	s.merging = true
	c.host.Spawn(func() { c.replace(from, names) })
	return true
}

// replace replaces requests by one for these resources, to which they are subscribed.
func (c *Conn) replace(from []*watch, names []string) {
	s := &c.subs
	c.mu.Lock()
	h := &handover{lost: map[*watch]bool{}, broken: make(chan struct{}), unsettled: map[string]*overlap{}}
	for _, w := range from {
		w.in = h
	}
	to := c.newWatch(names)
	c.mu.Unlock()
	began := time.Now()
	granted, err := to.begin()
	took := time.Since(began)
	c.mu.Lock()
	to.grant(names, granted)
	accepted := err == nil && !slices.ContainsFunc(names, func(name string) bool { return s.watched[name] != nil && !to.names[name] })
	switch {
	case accepted:
		h.to, to.in = to, h
		s.watches = append(s.watches, to)
		c.host.Spawn(func() { c.follow(to) })
		c.mu.Unlock()
		c.overlap(h, min(max(4*took, minOverlap), maxOverlap))
		c.mu.Lock()
	case err == nil || isRefusal(err):
		s.most = max(1, min(len(names)-1, cmp.Or(len(to.names), len(names)/2)))
	default:
		s.pause = time.Now().Add(mergePause)
	}
	if h.to == nil {
		c.host.Spawn(func() { to.end(); to.stop() })
	}
	defer c.mu.Unlock()
	accepted = accepted && !h.lost[to]
	for _, w := range from {
		w.in = nil
		switch {
		case accepted:
			c.drop(w)
		case h.lost[w]:
			c.lose(w)
		case c.owned(w) == 0:
			c.drop(w)
		}
	}
	to.in = nil
	if accepted {
		for name := range to.names {
			if by := s.watched[name]; slices.Contains(from, by) {
				if s.watched[name] = to; h.lost[by] {
					c.tell([][]byte{mcp.Updated(name)})
				}
			}
		}
		for name := range h.unsettled {
			c.conclude(h, name)
		}
		if c.owned(to) == 0 {
			c.drop(to)
		}
	} else if h.to != nil {
		c.drop(to)
	}
	s.merging = false
	if len(s.watches) > fewWatches || len(s.wishes) > 0 {
		c.merge(false)
	}
	c.tend()
}

// restore begins the subscriptions that are not at the server: their request has ended by itself, or, while a standing stream is open,
// another replica had them. What cannot begin is tried again. c.mu must be held.
func (c *Conn) restore() {
	if s := &c.subs; !s.restoring {
		s.restoring = true
		c.host.Spawn(c.restores)
	}
}

func (c *Conn) restores() {
	s := &c.subs
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	defer context.AfterFunc(c.host.Draining, cancel)()
	for failed := false; ; {
		c.mu.Lock()
		list, lost := c.absent()
		if len(list) == 0 || ctx.Err() != nil {
			s.restoring = false
			c.mu.Unlock()
			return
		}
		if s.heard {
			s.again.Heard()
			s.heard = false
		}
		header := s.header
		c.mu.Unlock()
		if failed || lost {
			_ = s.again.Wait(ctx, 0) // its error is that of ctx
		}
		err := c.mustOffer(ctx, "resources.subscribe", wire.ResourcesSubscribe, header)
		if failed = err != nil; failed {
			c.host.Log.Debug("cannot restore subscriptions: tried again", zap.Error(err))
			continue
		}
		var begun sync.WaitGroup
		c.mu.Lock()
		list, _ = c.absent()
		for _, uri := range list {
			begun.Add(1)
			c.wishFor(&wish{uri: uri, wanted: func() bool { return c.isAbsent(uri) }, done: func(err error) {
				defer begun.Done()
				switch {
				case err == nil:
					s.again.Opened()
					if s.watched[uri] != nil { // it may have changed meanwhile
						c.tell([][]byte{mcp.Updated(uri)})
					}
				case isRefusal(err):
					c.host.Log.Info("the server does not accept a subscription any more: its client hears of no further changes", zap.String("uri", uri), zap.Error(err))
					c.unhold(uri)
				case ctx.Err() == nil:
					failed = true
					c.host.Log.Debug("cannot restore a subscription: tried again", zap.String("uri", uri), zap.Error(err))
					return
				}
				c.unwant(uri)
			}})
		}
		c.mu.Unlock()
		begun.Wait()
	}
}

// absent returns the resources whose subscriptions are to be restored, and whether a request for some has ended. c.mu must be held.
func (c *Conn) absent() (list []string, lost bool) {
	s := &c.subs
	for uri, w := range s.watched {
		if w == nil {
			list, lost = append(list, uri), true
		}
	}
	if standing := c.news.standing(); standing != nil && len(c.shared.wanted) > 0 {
		s.header = standing.header
		for _, uri := range c.shared.wanted {
			if _, there := s.watched[uri]; !there {
				list = append(list, uri)
			}
		}
	}
	return list, lost
}

// isAbsent reports whether a subscription is still to be restored. c.mu must be held.
func (c *Conn) isAbsent(uri string) bool {
	w, there := c.subs.watched[uri]
	return there && w == nil || !there && slices.Contains(c.shared.wanted, uri)
}
