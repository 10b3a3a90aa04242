package exchange

import (
	"github.com/dragoman-proxy/dragoman/proxy/memo"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// listKey returns the cache key of the list that x waits for. ok is false if x does not wait for a
// list.
func (x *Exchange) listKey(down *translate.Translator) (key memo.Key, ok bool) {
	if x.Call == nil || x.OwnCall != nil || x.answered || x.Call.Note != nil || x.Session.Direct != nil {
		return key, false
	}
	stamp, ok := x.Crossing.ListStamp(x.Common.Now().Config.Bridge.TTL)
	if !ok {
		return key, false
	}
	switch x.Call.Method {
	case wire.ToolsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.PromptsList:
		return memo.Key{By: down, Method: x.Call.Method, Facts: x.Session.Facts, Stamp: stamp}, true
	}
	return key, false
}

// again returns the known translation of raw, if raw is the known list. x.msg then has only its
// kind and method.
func (x *Exchange) again(key memo.Key, raw []byte) (out []byte, ok bool) {
	k := x.Common.Lists.Find(key)
	if k == nil || !k.Is(raw, x.Call.ID) || k.Same() && x.Crossing != nil {
		return nil, false
	}
	x.Msg.Kind, x.Msg.Method = wire.Result, key.Method
	x.id = append(x.id[:0], x.Call.ID...)
	x.answered, x.Final, x.Verdict = true, true, metrics.Succeeded
	x.Session.Open.End(x.Call)
	out = raw
	if !k.Same() {
		out = x.own(k.AppendTranslation(x.buf[:0], wire.View(x.Crossing.Rename(wire.Bytes(x.Call.ID)))), raw)
	}
	if k.Updated {
		x.noteDialect()
	}
	x.observeLost(k.Losses)
	x.Common.Host.Losses.Note(key.By.From(), key.By.To(), key.Method, k.Losses, x.From)
	return out, true
}
