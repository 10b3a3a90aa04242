package proxy

import (
	"bytes"
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// era is what an exchange has to know where a client without a session talks to
// a server with one. Its methods can be called on nil, which is all other
// exchanges.
type crossing struct {
	up, down wire.Stamp // of messages to the server, and to the client

	logs bool          // log messages may be about the request
	wait time.Duration // how much longer the server may be silent, as its client may be asked something

	opened    func(notification []byte) // hears of URLs that were opened; nil for none
	tasks     func(notification []byte) // hears of tasks in another state; nil for none
	questions []serverQuestion          // that the server asked and no call has taken yet
	about     string                    // the task that the request in hand is about
	urls      []byte                    // the error that asks for URLs to be opened, nil for none
	missing   []byte                    // what the client would have to declare to be asked, see requiredFor
	lacks     func(required []byte)     // hears of that where the call is not known; else nil
}

// query is a request of the server that its client is to be asked, as it
// stands inside an InputRequiredResult. It owns its memory.
type serverQuestion struct {
	id     []byte // of the server's request
	task   string // that it says it is about, "" for none
	loose  bool   // nothing says which call it belongs to
	method wire.Method
	body   []byte
}

// errAsked says that the server has asked something before it answered.
var errAsked = errors.New("the server has asked its client something")

func (e *crossing) toServer() *wire.Stamp {
	if e == nil {
		return nil
	}
	return &e.up
}

func (e *crossing) toClient() *wire.Stamp {
	if e == nil {
		return nil
	}
	return &e.down
}

// sent is the id that a request has towards the server.
func (e *crossing) sent(id []byte) []byte {
	if e == nil || e.up.ID == nil {
		return id
	}
	return e.up.ID
}

// patience is how much longer than others the server may be silent.
func (e *crossing) patience() time.Duration {
	if e == nil {
		return 0
	}
	return e.wait
}

// wantsLogs reports whether log messages may be about the request.
func (e *crossing) wantsLogs() bool { return e != nil && e.logs }

// rename is the id that an answer has towards the client.
func (e *crossing) rename(id []byte) []byte {
	if e == nil || e.down.ID == nil {
		return id
	}
	return e.down.ID
}

// hold keeps what translation leaves to its caller.
func (e *crossing) keep(kind wire.Kind, method wire.Method, id, body []byte) {
	switch {
	case e == nil:
	case kind == wire.Request:
		e.questions = append(e.questions, serverQuestion{id: bytes.Clone(id), task: e.about, method: method, body: bytes.Clone(body)})
	case kind == wire.Notification:
		if e.opened != nil && method == wire.ElicitationCompleted {
			e.opened(body)
		}
		if e.tasks != nil && method == wire.TasksStatus {
			e.tasks(body)
		}
	case kind == wire.Error:
		e.urls = bytes.Clone(body)
	}
}

// pending reports whether something is held.
func (e *crossing) pending() bool { return e != nil && (len(e.questions) > 0 || e.urls != nil) }

// take takes the questions that are held.
func (e *crossing) takeQuestions() []serverQuestion {
	list := e.questions
	e.questions = nil
	return list
}
