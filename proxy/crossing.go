package proxy

import (
	"bytes"
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// crossing is what an exchange needs between a modern client and a handshake server. Its methods
// may be called on nil, which all other exchanges have.
type crossing struct {
	up, down wire.Stamp // stamps for messages to the server, and to the client

	logs bool          // log messages may be about the request
	wait time.Duration // added to the limits for the server's silence, since its client may be asked something

	opened    func(notification []byte) // receives notifications that a URL was opened; may be nil
	tasks     func(notification []byte) // receives notifications that the state of a task has changed; may be nil
	questions []serverQuestion          // the server's questions that takeQuestions has not returned yet
	about     string                    // the task that the current request is about
	urls      []byte                    // the error that requires URLs to be opened; nil for none
	missing   []byte                    // the capability that the client must declare to be asked, see requiredFor
	lacks     func(required []byte)     // receives that capability if the call is not known; else nil
}

// serverQuestion is a request of the server to its client, as an entry of an InputRequiredResult.
// It owns its memory.
type serverQuestion struct {
	id     []byte // the id of the server's request
	task   string // the task that the question names; "" for none
	loose  bool   // the question names no call
	method wire.Method
	body   []byte
}

// errAsked says that the server has sent a question before its response.
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

// sent returns the id under which the server knows the request.
func (e *crossing) sent(id []byte) []byte {
	if e == nil || e.up.ID == nil {
		return id
	}
	return e.up.ID
}

// patience returns how much the limits for the server's silence are extended.
func (e *crossing) patience() time.Duration {
	if e == nil {
		return 0
	}
	return e.wait
}

// wantsLogs reports whether log messages may be about the request.
func (e *crossing) wantsLogs() bool { return e != nil && e.logs }

// rename returns the id under which the client knows the request.
func (e *crossing) rename(id []byte) []byte {
	if e == nil || e.down.ID == nil {
		return id
	}
	return e.down.ID
}

// keep stores a message that translation does not send on: a question, a notification, or an error
// that requires URLs to be opened.
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

// pending reports whether questions or URLs wait to be processed.
func (e *crossing) pending() bool { return e != nil && (len(e.questions) > 0 || e.urls != nil) }

// takeQuestions removes and returns the stored questions.
func (e *crossing) takeQuestions() []serverQuestion {
	list := e.questions
	e.questions = nil
	return list
}
