// Package trace is what happened in a world: what each peer sent and got, and what was done to it, by virtual time. The peers write it,
// and the judge reads it; neither knows the other.
package trace

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind says what happened.
type Kind string

// What a client does and sees. Who is the client.
const (
	Begins      Kind = "begins"     // it initializes, or begins without (2026-07-28); N counts its sessions from 1
	Began       Kind = "began"      // its session is there: Session has its id, if it has one; Text the negotiated revision
	Calls       Kind = "calls"      // it sends a request that has a mark; Text has its plan
	Requests    Kind = "requests"   // it sends a request without a mark: a list, a ping
	Answered    Kind = "answered"   // a response came, also an error (Failed)
	Progressed  Kind = "progressed" // a progress notification came for the call of Mark; N is its progress
	Logged      Kind = "logged"     // a notifications/message came; N is its number
	Asked       Kind = "asked"      // a question came; N is its number within the call of Mark, counted by the server from 1; Text is the URL, if it has one
	Replies     Kind = "replies"    // it answers question N of Mark; Text is its answer
	Revoked     Kind = "revoked"    // the question was cancelled
	Completed   Kind = "completed"  // it is told that the page of question N of Mark was opened; ID is the elicitationId
	Cancels     Kind = "cancels"    // it cancels the request of Mark
	Pinged      Kind = "pinged"     // a ping of the server came
	Updated     Kind = "updated"    // a resource of which it wants to know has changed: Text is its URI, N its version
	Changed     Kind = "changed"    // a list has changed: Text is the method
	Subscribes  Kind = "subscribes" // Text is the URI
	Unsubscribe Kind = "unsubscribes"
	Opened      Kind = "opened"   // its standing stream, or that of a subscription, is open
	Closed      Kind = "closed"   // that stream ended; Text says how
	Tasked      Kind = "tasked"   // the call of Mark is the task ID, whose status is Text
	Polls       Kind = "polls"    // it asks for the state or the result of its task
	Resumes     Kind = "resumes"  // it asks for what came after the last event of the answer to Mark, whose stream has ended
	Unheard     Kind = "unheard"  // it closed the way back of the request of Mark, without a word
	Leaves      Kind = "leaves"   // it goes away, without a word, with all that is open
	Finishes    Kind = "finishes" // on stdio: it says no more, and waits for what is open
	Ends        Kind = "ends"     // it ends its session as the protocol has it
	Whole       Kind = "whole"    // it has read what was cut out of the answer of Mark, in N pages; Text is what is wrong with it, "" for nothing; Failed is the error of a page
	Refused     Kind = "refused"  // its request got no answer of the protocol: Failed has the status or how the connection ended
	Expects     Kind = "expects"  // Text: a line for the judge of what must be so from now on
	Strange     Kind = "strange"  // something came that the peer cannot place: an unknown id, a broken frame. Always a fault of dragoman
)

// What the server does and sees. Who is "server", or its process, "server.3"; Session is the session that it means, as the server knows it.
const (
	Started     Kind = "started"     // a process began, or the listener is open
	Died        Kind = "died"        // a process ended, or the whole server
	Initialized Kind = "initialized" // notifications/initialized came
	Received    Kind = "received"    // a request came, with or without a mark; Conn is the connection
	Answers     Kind = "answers"     // it answers the request of Mark; Failed if by an error
	Progresses  Kind = "progresses"  // it tells progress N of Mark
	Logs        Kind = "logs"
	Asks        Kind = "asks"      // question N of Mark; Text is the URL, if it has one
	Told        Kind = "told"      // the answer to question N of Mark came; Text is the answer
	Withdraws   Kind = "withdraws" // it cancels question N of Mark
	Completes   Kind = "completes" // it says that the page of question N of Mark was opened
	Stopped     Kind = "stopped"   // a cancellation of the request of Mark came
	Becomes     Kind = "becomes"   // the call of Mark is the task ID, which has the status Text from now on
	Pings       Kind = "pings"
	Ponged      Kind = "ponged"
	Updates     Kind = "updates"
	Changes     Kind = "changes"
	Standing    Kind = "standing" // a standing stream was opened by dragoman
	Expires     Kind = "expires"  // a standing stream ends for its age, which is Text; its client may open it again
	Gone        Kind = "gone"     // a session was ended by DELETE or by the end of its process's input
	Loses       Kind = "loses"    // it forgets its sessions
	Accepted    Kind = "accepted" // a connection; Conn is its number
)

// What is done to the world.
const (
	Step Kind = "step" // Text is a line of the schedule, which is carried out now
	Calm Kind = "calm" // from here on no fault is done, and those that were have ended
	Over Kind = "over" // all peers have left
	Note Kind = "note" // for readers only

	Counted Kind = "counted" // a process has counted, by its end, N requests of Method that had the outcome Text
	Dropped Kind = "dropped" // the same: N messages that it has dropped for the reason Text
	Removed Kind = "removed" // the same: N values that a rule took out of messages of one revision for another; Text is all three
)

// Event is something that happened.
type Event struct {
	At      time.Duration // since the beginning of the world
	Who     string
	Kind    Kind
	Mark    string // "c1.7": the seventh call of client c1; "" if it is about none
	Method  string // of the message, if there is one
	ID      string // of the message, as JSON
	Session string
	Via     string // the replica, as far as the peer knows: "r1", "p3" for the own process of client c3
	Conn    int    // the connection; 0 if that is not known
	N       int
	User    string // whose token came with the request, as the server sees it; "" for none
	Text    string
	Failed  string // an error: its code and message, a status, how a connection ended; "" for none
	Raw     []byte // the message
}

// Trace is all that happened, in the order in which it was written down. It is safe for concurrent use.
type Trace struct {
	begun time.Time
	mu    sync.Mutex
	all   []Event
}

// New returns a trace that begins now.
func New() *Trace { return &Trace{begun: time.Now()} }

// Add writes e down, which happens now. It owns e.Raw from then on.
func (t *Trace) Add(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.At = time.Since(t.begun)
	t.all = append(t.all, e)
}

// All returns what has happened so far.
func (t *Trace) All() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[:len(t.all):len(t.all)]
}

// String is a line for a reader, without the bytes.
func (e Event) String() string {
	s := fmt.Sprintf("%10.3fs  %-8s %-11s", e.At.Seconds(), e.Who, e.Kind)
	add := func(what, value string) {
		if value != "" {
			s += " " + what + value
		}
	}
	add("", e.Mark)
	add("", e.Method)
	add("id=", e.ID)
	if e.N != 0 {
		s += fmt.Sprintf(" n=%d", e.N)
	}
	if len(e.Session) > 12 {
		e.Session = e.Session[:12] + "…"
	}
	add("session=", e.Session)
	add("via=", e.Via)
	add("user=", e.User)
	if e.Conn != 0 {
		s += fmt.Sprintf(" conn=%d", e.Conn)
	}
	if e.Text != "" {
		s += fmt.Sprintf(" %.120q", e.Text)
	}
	if e.Failed != "" {
		s += fmt.Sprintf(" FAILED %.160q", e.Failed)
	}
	return s
}

// Write writes events to w, a line each, and their bytes if raw is set.
func Write(w io.Writer, all []Event, raw bool) error {
	for _, e := range all {
		if _, err := fmt.Fprintln(w, e); err != nil {
			return err
		}
		if raw && len(e.Raw) > 0 {
			if _, err := fmt.Fprintf(w, "%24s%s\n", "", e.Raw); err != nil {
				return err
			}
		}
	}
	return nil
}
