package legacyclient

import (
	"context"
	"io"
	"iter"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// begin sends the request and waits for the acknowledgement, whose params it returns.
func (l *listenRequest) begin() (granted gjson.Result, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	if l.c.reach == ByHTTP {
		if err := l.c.bridge.streams.enter(l.c.counted, l.c.host.Config()); err != nil {
			return granted, err
		}
		l.counted = true
	}
	var o *upstream.Outgoing
	if l.id, o, err = l.c.own(ownRequest{method: wire.SubscriptionsListen, params: l.what, can: l.can}, l.header); err != nil {
		return granted, err
	}
	if l.st, err = l.c.conn.Send(l.ctx, o); err != nil {
		l.st = nil
		return granted, err
	}
	for e, err := range pipes.Before(ctx, l.st) {
		if err != nil {
			if e, err = pipes.RefusalOf(err, l.id); err != nil {
				return granted, err
			}
		}
		var m wire.Message
		if len(e.Data) == 0 || m.Scan(e.Data, nil) != nil {
			continue
		}
		switch {
		case m.Method == wire.SubscriptionsAcknowledged:
			return gjson.ParseBytes(append([]byte(nil), m.Params()...)), nil
		case m.Kind == wire.Error:
			said := gjson.GetMany(wire.View(m.Error()), "code", "message")
			return granted, mcp.Saying(int(said[0].Int()), said[1].String())
		case m.Kind == wire.Result:
			return granted, io.EOF
		}
		l.c.enqueue(m.Raw, l.header)
	}
	return granted, io.EOF
}

// run begins the subscription and forwards notifications until ctx ends.
func (l *listenRequest) run() {
	defer l.end()
	var again pipes.Reopening
	for gap := false; ; gap = true {
		if _, err := l.begin(); err == nil {
			if gap {
				l.c.tell(l.missed)
			}
			again.Opened()
			for m := range notifications(l.st) {
				l.c.enqueue(m.Raw, l.header)
				again.Heard()
			}
		} else {
			l.c.host.Log.Debug("cannot begin a subscription: it is tried again", zap.Error(err))
		}
		if l.ctx.Err() != nil {
			return
		}
		l.c.bridge.results.Unheard(l.c.realm)
		l.drop()
		if again.Wait(l.ctx, 0) != nil {
			return
		}
	}
}

// end ends the subscription.
func (l *listenRequest) end() {
	if l.st != nil {
		l.c.sendCancelled(l.id)
	}
	l.drop()
}

// drop closes the stream.
func (l *listenRequest) drop() {
	if l.counted {
		l.c.bridge.streams.leave(l.c.counted)
		l.counted = false
	}
	if l.st != nil {
		l.st.Close()
		l.st = nil
	}
}

// notifications gives the messages of a subscription's stream until it ends, or the response ends the subscription. A
// message is valid until the next one.
func notifications(st upstream.Stream) iter.Seq[*wire.Message] {
	return func(yield func(*wire.Message) bool) {
		var m wire.Message
		for e, err := range st.Events {
			if err == nil && (len(e.Data) == 0 || m.Scan(e.Data, nil) != nil) {
				continue
			}
			if err != nil || m.Kind.Response() || !yield(&m) {
				return
			}
		}
	}
}

// contains reports whether a JSON array contains this string.
func contains(list gjson.Result, text string) (found bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		found = v.Type == gjson.String && v.String() == text
		return !found
	})
	return found
}
