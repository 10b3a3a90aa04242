package exchange

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// If translation has changed a question of the server, as rule C19 does with multiple choices, the
// answer can be translated back only with the note that translation has made. If the answer may come
// to another process, the id of the question that is sent to the client holds the note and the
// server's id, sealed. So do the ids of questions in a session that has replaced a lost one, and of a process in the place of one that has
// ended: the client may know others by the server's ids. All other ids are unchanged.

// sealNote makes note available when the question out, which has the given id, is answered. It
// returns the question to send to the client.
func (x *Exchange) sealNote(out, id, note []byte, method wire.Method) []byte {
	if x.Session.Local && !x.Session.Again.Load() { // the answer will come to this process
		x.keepAsked(id, note)
		return out
	}
	as := x.sealedID(id, note, method)
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.Session.Asked.Change(x.key, func(c *session.Call) { c.As = as })
	asked, err := sjson.SetRawBytes(out, "id", as)
	if err != nil {
		x.log().Error("cannot rename a question: its answer may not be translated", zap.Error(err))
		return out
	}
	return asked
}

// sealedID returns the id by which the client knows a question of the session that x is within.
func (x *Exchange) sealedID(id, note []byte, method wire.Method) []byte {
	if s := x.laterSession(); s != "" {
		s = cmp.Or(x.within, s)
		note = slices.Concat([]byte{ofSession}, []byte(s), []byte{ofSession}, []byte(method.String()), []byte{ofSession}, note)
	}
	return x.Common.Now().Sealer.SealQuestion(id, note)
}

// ofSession is behind the session of the server and behind the method of the question, which the note of a question begins with, and before
// them, if that session has replaced one that the server had lost.
const ofSession = 0xff

// laterSession returns the id of the server's session if it has replaced one that the server had lost. The server counts its questions anew in
// each, so the id of a question must say which session it belongs to: its answer would be taken for that to another question, of an earlier
// session that the client or another process still believes in, or of the own one of another process without a store.
func (x *Exchange) laterSession() string {
	s := x.Session
	if s.Renewing == nil || !s.Again.Load() {
		return ""
	}
	return s.Renewing.SessionID()
}

// openSealed prepares the answer to a question with a sealed id for translation: it puts the server's id
// back into the answer and sets the note. ok is false if the id is not sealed, and also if the question was answered before: then
// answer is nil.
func (x *Exchange) openSealed(raw []byte) (answer []byte, ok bool, err error) {
	m := &x.Msg
	if !bytes.HasPrefix(m.ID(), []byte(sealed.QuestionPrefix)) {
		return raw, false, nil
	}
	id, note, ok := x.Common.Now().Sealer.OpenQuestion(m.ID())
	if !ok {
		return raw, false, nil
	}
	method, current := wire.ElicitationCreate, x.within
	c, as := x.Session.Renewing, bytes.Clone(m.ID())
	switch later := len(note) > 0 && note[0] == ofSession; {
	case later && c == nil:
		return nil, false, nil
	case later:
		session, rest, _ := bytes.Cut(note[1:], []byte{ofSession})
		name, rest, _ := bytes.Cut(rest, []byte{ofSession})
		x.within, method, note = string(session), wire.MethodOf(name), rest
	case c != nil && !x.Session.Local:
		x.within = c.First()
	}
	if answer, err = sjson.SetRawBytes(raw, "id", id); err != nil {
		return raw, false, err
	}
	if err := m.Scan(answer, x.Session.Up.Shape()); err != nil {
		return raw, false, err
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if x.within == current { // else another process has asked, or it is a question of a session that the server has lost
		if c == nil && x.Session.Local && !x.asksAs(as) {
			return nil, false, nil // a process has asked that has ended, and the next one has used the id again
		}
		x.Met = x.Session.Asked.Take(x.key)
		if x.Met == nil && (x.Session.Local || x.Session.Asked.Ended(x.key)) {
			return nil, false, nil // it was answered already, perhaps when it was repeated
		}
		if x.Met != nil {
			method = x.Met.Method
		}
	}
	m.Facts, m.Method, m.Note = x.Session.Facts, method, note
	return answer, true, nil
}

// asksAs reports whether the client knows the newest question with the id in x.key by this id.
func (x *Exchange) asksAs(as []byte) bool {
	c := x.Session.Asked.Newest(x.key)
	return c != nil && bytes.Equal(c.As, as)
}

// ofLost returns the question of a session that the server has lost, as the client knows it, if m is what [restart.HTTP] says of its end. It
// returns nil for what the server says itself.
func (x *Exchange) ofLost(m *wire.Message) *session.Call {
	box := gjson.Get(wire.View(m.Params()), "requestId").Raw
	id, _, ok := x.Common.Now().Sealer.OpenQuestion([]byte(box))
	if !ok {
		return nil
	}
	return &session.Call{As: id}
}

// renamed puts the id by which the client knows a question into the server's notifications/cancelled
// for that question.
func renamed(out []byte, c *session.Call) []byte {
	if c == nil || c.As == nil || !gjson.GetBytes(out, "params.requestId").Exists() {
		return out
	}
	told, err := sjson.SetRawBytes(out, "params.requestId", c.As)
	if err != nil {
		return out
	}
	return told
}
