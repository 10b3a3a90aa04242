package exchange

import (
	"github.com/dragoman-proxy/dragoman/proxy/memo"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// listKey returns the key under which the translation of the answer to c is remembered, if it is a list. ok is false if it
// is not. c may be nil.
func (x *Exchange) listKey(c *session.Call, down *translate.Translator) (key memo.Key, ok bool) {
	if c == nil || x.OwnCall != nil || c.Note != nil {
		return key, false
	}
	if key, ok = memo.KeyOf(down, c.Method, x.Session.Facts); ok && x.Session.Direct == nil { // otherwise, messages get no stamp
		key.Stamp, ok = x.Crossing.ListStamp(x.Common.Now().Config.Bridge.TTL)
	}
	return key, ok
}

// again returns the known translation of raw, if raw is the known answer to x's own request. x.Msg then has only its kind
// and method, and what its translation knew.
func (x *Exchange) again(key memo.Key, raw []byte) (out []byte, ok bool) {
	k := x.Common.Lists.Find(key)
	if k == nil || !k.Is(raw, x.Call.ID) {
		return nil, false
	}
	x.Msg.Kind, x.Msg.Method = wire.Result, key.Method
	x.Msg.Facts, x.Msg.Stamp, x.Msg.Note = x.Session.Facts, x.Crossing.ToClient(), nil
	x.id = append(x.id[:0], x.Call.ID...)
	x.answered, x.Final, x.Verdict = true, true, metrics.Succeeded
	x.Session.Open.End(x.Call)
	if key.Method == wire.ToolsList {
		x.noteTools(raw)
	}
	return x.remembered(key, k, raw), true
}

// remembered returns the translation of raw, which is k, for the client, and counts what it loses.
func (x *Exchange) remembered(key memo.Key, k *memo.Answer, raw []byte) (out []byte) {
	out = raw
	if id := x.Crossing.Rename(x.id); !k.Same() || !sameMemory(id, x.id) {
		out = x.own(k.AppendTranslation(x.buf[:0], wire.View(id)), raw)
	}
	if k.Updated {
		x.noteDialect()
	}
	x.answeredSpan(&x.Msg).Lost(k.Losses)
	x.observeLost(k.Losses)
	x.Common.Host.Losses.Note(key.By.From(), key.By.To(), key.Method, k.Losses, x.From)
	x.Clock.Lap(&x.Clock.Translate)
	return out
}
