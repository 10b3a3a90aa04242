package crossing

import (
	"bytes"
	"errors"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Crossing is what an exchange needs between a modern client and a handshake server. Its methods
// may be called on nil, which all other exchanges have.
type Crossing struct {
	Up, Down wire.Stamp // stamps for messages to the server, and to the client

	Logs bool          // log messages may be about the request
	Wait time.Duration // added to the limits for the server's silence, since its client may be asked something

	// These functions receive what no request waits for. Each may be nil.
	Opened    func(notification []byte) // a URL was opened
	Tasks     func(notification []byte) // the state of a task has changed
	Withdrawn func(question string)     // the server has cancelled the question with this id
	Lacks     func(required []byte)     // the capability that a client lacks, if the call is not known

	Own *OwnRequest // the exchange is about a request of dragoman's own; nil for others

	questions []Question // the server's questions that TakeQuestions has not returned yet
	about     string     // the task that the current request is about
	urls      []byte     // the error that requires URLs to be opened; nil for none
	missing   []byte     // the capability that the client must declare to be asked, as the data of an error
}

// OwnRequest is a request of dragoman's own.
type OwnRequest struct {
	ID       []byte
	Response []byte // as it came; nil before
}

// Question is a request of the server to its client, as an entry of an InputRequiredResult.
// It owns its memory.
type Question struct {
	ID     []byte // the id of the server's request
	Task   string // the task that the question names; "" for none
	Loose  bool   // the question names no call
	Now    bool   // the server answers a request of dragoman's own only after it: it cannot wait for the next call
	Method wire.Method
	Body   []byte
	over   *atomic.Bool // becomes true when the server does not wait for the answer any more; nil if that is not known
}

// IsOver reports whether the server does not wait for the answer any more: it has cancelled the question, or another process or session has taken
// the place of the one that asked, and may have used the id again.
func (q *Question) IsOver() bool { return q.over != nil && q.over.Load() }

// Client receives what the server says before its response. An error of Send ends the reading.
type Client interface {
	mcp.Peer
	// Ask passes on questions of the server, which are answered later.
	Ask(list []Question)
	// MayWait reports whether the goroutine that reads may wait for anything but the stream. If not, the reading ends with
	// sse.ErrInterrupted before it does, and another goroutine can go on.
	MayWait() bool
}

// ErrURLs says that the response requires that the user opens URLs.
var ErrURLs = errors.New("the user has to open URLs before the call is repeated")

// ToServer returns the stamp for messages to the server.
func (e *Crossing) ToServer() *wire.Stamp {
	if e == nil {
		return nil
	}
	return &e.Up
}

// ToClient returns the stamp for messages to the client.
func (e *Crossing) ToClient() *wire.Stamp {
	if e == nil {
		return nil
	}
	return &e.Down
}

var seed = maphash.MakeSeed()

// ListStamp returns a hash of all in the stamp for the client that the translation of a list depends on, apart from the
// id. ok is false if the list's time to live is not ttl, as it is then another one each time.
func (e *Crossing) ListStamp(ttl time.Duration) (hash uint64, ok bool) {
	if e == nil {
		return 0, true
	}
	if e.Down.ID == nil || e.Down.Task != nil || e.Down.TTL != ttl.Milliseconds() {
		return 0, false
	}
	var h maphash.Hash
	h.SetSeed(seed)
	h.Write(e.Down.ServerInfo) //nolint:errcheck // it has none
	maphash.WriteComparable(&h, e.Down.TTL)
	return max(h.Sum64(), 1), true
}

// Sent returns the id under which the server knows the request.
func (e *Crossing) Sent(id []byte) []byte {
	if e == nil || e.Up.ID == nil {
		return id
	}
	return e.Up.ID
}

// Patience returns how much the limits for the server's silence are extended.
func (e *Crossing) Patience() time.Duration {
	if e == nil {
		return 0
	}
	return e.Wait
}

// WantsLogs reports whether log messages may be about the request.
func (e *Crossing) WantsLogs() bool { return e != nil && e.Logs }

// Rename returns the id under which the client knows the request.
func (e *Crossing) Rename(id []byte) []byte {
	if !e.Renames() {
		return id
	}
	return e.Down.ID
}

// Renames reports whether the client knows the request by another id than the server.
func (e *Crossing) Renames() bool { return e != nil && e.Down.ID != nil }

// Keep stores a message that translation does not send on: a question, a notification, or an error
// that requires URLs to be opened. over is that of a question; nil for anything else.
func (e *Crossing) Keep(kind wire.Kind, method wire.Method, id, body []byte, over *atomic.Bool) {
	switch {
	case e == nil:
	case kind == wire.Request:
		e.questions = append(e.questions, Question{ID: bytes.Clone(id), Task: e.about, Method: method, Body: bytes.Clone(body), over: over})
	case kind == wire.Notification:
		if e.Opened != nil && method == wire.ElicitationCompleted {
			e.Opened(body)
		}
		if e.Tasks != nil && method == wire.TasksStatus {
			e.Tasks(body)
		}
	case kind == wire.Error:
		e.urls = bytes.Clone(body)
	}
}

// Withdraw says that the server has cancelled its question with this id.
func (e *Crossing) Withdraw(question string) {
	if e != nil && e.Withdrawn != nil {
		e.Withdrawn(question)
	}
}

// KeepResponse keeps m, and returns true, if it is the response to dragoman's own request.
func (e *Crossing) KeepResponse(m *wire.Message) bool {
	if e == nil || e.Own == nil || !bytes.Equal(wire.AppendIDKey(nil, m.ID()), wire.AppendIDKey(nil, e.Own.ID)) {
		return false
	}
	e.Own.Response = bytes.Clone(m.Raw)
	return true
}

// Response returns the response to dragoman's own request, which the caller owns, or nil.
func (e *Crossing) Response() []byte {
	if e == nil || e.Own == nil {
		return nil
	}
	return e.Own.Response
}

// Pending reports whether questions, URLs or a response wait to be processed.
func (e *Crossing) Pending() bool {
	return e != nil && (len(e.questions) > 0 || e.urls != nil || e.Response() != nil)
}

// TakeQuestions removes and returns the stored questions.
func (e *Crossing) TakeQuestions() []Question {
	list := e.questions
	e.questions = nil
	return list
}

// NoteUnasked notes that a request of the server was answered in the client's place.
func (e *Crossing) NoteUnasked(method wire.Method, question []byte) {
	if e == nil {
		return
	}
	required := requiredFor(method, question)
	switch {
	case required == nil:
	case e.Lacks != nil:
		e.Lacks(required)
	default:
		e.missing = required
	}
}

// requiredFor returns the capability that a client must declare to be asked this, as the data of an error.
// It returns nil if method is not a question.
func requiredFor(method wire.Method, question []byte) []byte {
	params := gjson.GetBytes(question, "params")
	required := ""
	switch method {
	case wire.RootsList:
		required = `"roots":{}`
	case wire.SamplingCreateMessage:
		required = `"sampling":{}`
		if params.Get("tools").Exists() || params.Get("toolChoice").Exists() {
			required = `"sampling":{"tools":{}}`
		}
	case wire.ElicitationCreate:
		required = `"elicitation":{"form":{}}`
		if params.Get("mode").String() == "url" {
			required = `"elicitation":{"url":{}}`
		}
	default:
		return nil
	}
	return []byte(`{"requiredCapabilities":{` + required + `}}`)
}

// taskOf returns the id of the task that a request of the server names, or "" if it names none.
func taskOf(params []byte) (task string) {
	if !bytes.Contains(params, []byte(mcp.MetaRelatedTask)) {
		return ""
	}
	mcp.Members(gjson.Get(wire.View(params), "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaRelatedTask {
			task = strings.Clone(v.Get("taskId").String())
		}
	})
	return task
}

// ListenResult returns the response that ends the stream of the subscription with this request id.
func ListenResult(id []byte) []byte {
	return mcp.AppendResult(nil, id, `{"resultType":"complete","_meta":{"`+mcp.MetaSubscription+`":`+string(id)+`}}`)
}

// About notes which task the request of the server that comes next is about.
func (e *Crossing) About(params []byte) { e.about = taskOf(params) }

// URLs returns the error that requires URLs to be opened, or nil.
func (e *Crossing) URLs() []byte { return e.urls }

// Lacking returns the capability that the client must declare to be asked what the server has asked, as the data
// of an error. It returns nil if nothing was answered in the client's place.
func (e *Crossing) Lacking() []byte { return e.missing }
