package legacyclient

import (
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// listKey returns the key under which the translation of the answer is remembered, if it is a list. ok is false if it is not.
func (b *call) listKey() (key memo.Key, ok bool) {
	if b.note != nil || b.wish != nil {
		return key, false
	}
	return memo.KeyOf(b.c.down, b.method, b.c.facts)
}

// again ends the call with the known translation of raw, which is written over raw, if raw is the known answer.
func (b *call) again(key memo.Key, raw []byte) bool {
	c := b.c
	k := c.bridge.lists.Find(key)
	if k == nil || !k.Is(raw, wire.View(b.sent)) {
		return false
	}
	if b.method == wire.ToolsList && c.reach == ByHTTP {
		c.tools.Learn(raw, c.host.Log) // no tool is left out: such a list is not remembered
	}
	b.msgs.downStamp = wire.Stamp{ID: b.id}
	c.host.Losses.Note(c.lossPeers(c.down), b.method, k.Losses, b.request.Header)
	b.seen.Because(observe.ToClient, observe.Why{Translator: c.down, Known: translate.Known{Method: b.method, Facts: c.facts, Stamp: &b.msgs.downStamp}}, k.Losses)
	b.msgs.down.Raw = nil // what was scanned last is another message, maybe in the memory of this one
	b.conclude(k.AppendTranslation(raw[:0:len(raw)], wire.View(b.id)))
	return true
}
