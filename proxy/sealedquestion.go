package proxy

import (
	"bytes"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A question of the server's that was put into other words, as rule C19 does with
// choices of many, has an answer that makes sense only to those who know how it
// was put. Where the answer may come by way of another process the question
// carries that with it: in its id, sealed, beside the id that the server gave it.
// All other ids stay as they are.

// carryNote sees to it that note will be at hand when the question out, which
// has the given id, is answered, and returns the question to ask.
func (x *exchange) sealNote(out, id, note []byte) []byte {
	if x.s.Local { // so will the answer come here
		x.keepAsked(id, note)
		return out
	}
	as := x.srv.now().sealer.SealQuestion(id, note)
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.s.asked.Change(x.key, func(c *call) { c.As = as })
	asked, err := sjson.SetRawBytes(out, "id", as)
	if err != nil {
		x.log().Error("question was not renamed", zap.Error(err))
		return out
	}
	return asked
}

// reuniteCarried does what reunite does, for an answer to a question that carries
// what is needed; ok is false for all others. The answer gets back the server's id.
func (x *exchange) openSealed(raw []byte) (answer []byte, ok bool, err error) {
	m := &x.msg
	if !bytes.HasPrefix(m.ID(), []byte(sealed.QuestionPrefix)) {
		return raw, false, nil
	}
	id, note, ok := x.srv.now().sealer.OpenQuestion(m.ID())
	if !ok {
		return raw, false, nil
	}
	if answer, err = sjson.SetRawBytes(raw, "id", id); err != nil {
		return raw, false, err
	}
	if err := m.Scan(answer, x.s.up.Shape()); err != nil {
		return raw, false, err
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	x.met = x.s.asked.Take(x.key)
	if x.s.Local && x.met == nil {
		return answer, false, nil // it was asked again, and answered
	}
	m.Facts, m.Method, m.Note = x.s.Facts, wire.ElicitationCreate, note
	return answer, true, nil
}

// renamed puts the id that the client knows a question by into the server's
// notification that it is cancelled.
func renamed(out []byte, c *call) []byte {
	if c == nil || c.As == nil || !gjson.GetBytes(out, "params.requestId").Exists() {
		return out
	}
	told, err := sjson.SetRawBytes(out, "params.requestId", c.As)
	if err != nil {
		return out
	}
	return told
}
