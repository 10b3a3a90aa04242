package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/memo"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// listKey returns the cache key of the list that x waits for. ok is false if x does not wait for a
// list.
func (x *exchange) listKey(down *translate.Translator) (key memo.Key, ok bool) {
	if x.call == nil || x.ownCall != nil || x.answered || x.call.Note != nil || down.From().Modern || down.To().Modern {
		return key, false
	}
	switch x.call.Method {
	case wire.ToolsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.PromptsList:
		return memo.Key{By: down, Method: x.call.Method, Facts: x.s.Facts}, true
	}
	return key, false
}

// again returns the known translation of raw, if raw is the known list. x.msg then has only its
// kind and method.
func (x *exchange) again(key memo.Key, raw []byte) (out []byte, ok bool) {
	k := x.srv.lists.Find(key)
	if k == nil || !k.Is(raw, x.call.ID) {
		return nil, false
	}
	x.msg.Kind, x.msg.Method = wire.Result, key.Method
	x.id = append(x.id[:0], x.call.ID...)
	x.answered, x.final, x.verdict = true, true, metrics.Succeeded
	x.s.Open.End(x.call)
	out = raw
	if !k.Same() {
		out = x.own(k.AppendTranslation(x.buf[:0], x.call.ID), raw)
	}
	if k.Updated {
		x.noteDialect()
	}
	x.observeLost(k.Losses)
	x.srv.Host.Losses.Note(key.By.From(), key.By.To(), key.Method, k.Losses, x.from)
	return out, true
}
