package script

import (
	"strings"
	"time"
)

// Plan is what the server does with a call, and the client with what comes of it. The client writes it into the call's arguments, so that
// any process of the server knows it: {"mark":"c1.7","plan":"progress=2 how=sse"}. The zero Plan is answered at once, with a text.
type Plan struct {
	Progress int           // progress notifications before the answer
	Logs     int           // log messages of this call before the answer
	Ask      []string      // questions before the answer: elicit, url, sample, roots; visit is a page that must be opened before the call
	Together bool          // they are asked at once, not in turn
	Away     bool          // they are asked on the standing stream, not on that of the call
	Needs    bool          // a server with sessions asks them also a client that has not declared that it can answer, and fails the call if one is refused
	Gap      time.Duration // between what comes before the answer
	Wait     time.Duration // before the answer
	How      string        // see below; "" is text
	Size     int           // bytes of text in the answer, beyond the mark: see peers.filling

	Reply  string        // how the client answers questions; "" is accept
	Late   time.Duration // how long its user thinks
	Opens  time.Duration // how long after its answer a page that it has agreed to open is opened
	Cancel time.Duration // when the client cancels the call by itself; 0 for never
	As     string        // how the client writes the call: see below
	Task   string        // the call may be a task, if both know tasks: of act, or of run, a tool that only runs so before 2026-07-28
	Kind   string        // of what it acts, with a parameter that a gate allows for some: open, shut
	More   string        // how the client reads what was cut out of the answer: raw, lines; "" does not
}

// How the server answers: Plan.How.
const (
	JSON    = "json"    // over Streamable HTTP: one JSON body, if nothing came before it
	SSE     = "sse"     // over Streamable HTTP: a stream
	Twice   = "twice"   // the same answer two times
	Error   = "error"   // an error of JSON-RPC
	Never   = "never"   // no answer, and nothing is closed
	Closes  = "closes"  // the stream ends as it should, without an answer; on a pipe: never
	Cut     = "cut"     // the connection ends within the answer; on a pipe: the process dies
	Null    = "null"    // the answer has "error":null beside its result
	Status  = "status"  // HTTP 500; on a pipe: error
	Busy    = "busy"    // HTTP 429; on a pipe: error
	Garbage = "garbage" // something that is no JSON, then the answer
	Other   = "other"   // the answer to an id that was never given, then the answer
	Broken  = "broken"  // on a pipe: the answer, which is no valid JSON; over HTTP: error
	Behind  = "behind"  // over Streamable HTTP: one JSON body, and bytes behind its end
	Lines   = "lines"   // over Streamable HTTP: one JSON body, over several lines
	Stray   = "stray"   // progress with a token that is none, then the answer

	Bare     = "bare"     // before 2026-07-28: a result without content, with structuredContent where the revision has it; from then on: text
	Nameless = "nameless" // from 2026-07-28 on: a question that has no method; before: error
)

// How the client writes a call: Plan.As.
const (
	Escaped    = "escaped"    // with a slash in the method that is escaped
	Gated      = "gated"      // with an argument by which dragoman asks a gate, if it has one
	GatedTwice = "gatedtwice" // with two of that name
)

// How the client answers a question: Plan.Reply.
const (
	Accept     = "accept"
	Decline    = "decline"
	ReplyTwice = "twice"
	ReplyNever = "never"
	ReplyError = "error"
)

// PlanOf returns the plan that a step has.
func PlanOf(s Step) Plan {
	p := Plan{
		Progress: s.Number("progress"), Logs: s.Number("logs"), Together: s.Get("together") != "", Away: s.Get("away") != "", Needs: s.Get("needs") != "",
		Gap: s.Time("gap"), Wait: s.Time("wait"), How: s.Get("how"), Size: s.Number("size"),
		Reply: s.Get("reply"), Late: s.Time("late"), Opens: s.Time("opens"), Cancel: s.Time("cancel"), More: s.Get("more"), Kind: s.Get("kind"), Task: s.Get("task"), As: s.Get("as"),
	}
	if ask := s.Get("ask"); ask != "" {
		p.Ask = strings.Split(ask, ",")
	}
	return p
}

// ParsePlan reads the text of a plan: the values of a step.
func ParsePlan(text string) Plan {
	s, err := ParseStep("x x " + text)
	if err != nil {
		return Plan{}
	}
	return PlanOf(s)
}

// PlanText returns the values of s as the text of a plan.
func PlanText(s Step) string {
	words := make([]string, len(s.Values))
	for i, v := range s.Values {
		words[i] = v.Name + "=" + v.Text
	}
	return strings.Join(words, " ")
}
