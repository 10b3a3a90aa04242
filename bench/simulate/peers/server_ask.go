package peers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// asking is what the server asks in a call: a word in Plan.Ask.
type asking struct {
	n          int // its place in the plan, from 1 on: it is the same in sessions in which other questions are not asked
	method     string
	capability string
	page       bool   // its user is to open a page, and fills in no form
	first      bool   // the call fails as long as that is not done; before 2026-07-28
	since      string // the revision that has it
}

var askings = map[string]asking{
	"elicit": {method: "elicitation/create", capability: "elicitation", since: "2025-06-18"},
	"url":    {method: "elicitation/create", capability: "elicitation", since: "2025-11-25", page: true},
	"visit":  {method: "elicitation/create", capability: "elicitation", since: "2025-11-25", page: true, first: true},
	"sample": {method: "sampling/createMessage", capability: "sampling"},
	"roots":  {method: "roots/list", capability: "roots"},
}

// asks are the questions of the plan that the client may be asked, or is asked all the same: see Plan.Needs.
func (c *serverCall) asks() (all []asking) {
	for i, what := range c.plan.Ask {
		a := askings[what]
		a.n = i + 1
		if (c.may(a) || c.plan.Needs && !c.modern) && since(c.revision, a.since) {
			all = append(all, a)
		}
	}
	return all
}

// may reports whether the client has declared that it can be asked that.
func (c *serverCall) may(a asking) bool {
	declared, can := c.can[a.capability]
	if a.capability != "elicitation" || !since(c.revision, "2025-11-25") {
		return can
	}
	var modes struct{ Form, URL *struct{} }
	_ = json.Unmarshal(declared, &modes)
	if a.page {
		return modes.URL != nil
	}
	return can && (modes.Form != nil || modes.URL == nil)
}

// serverQuestion is a question of a call.
type serverQuestion struct {
	call      *serverCall
	n         int
	method    string
	id        json.RawMessage
	page      *serverPage // nil for none
	done      chan struct{}
	over      bool // answered, withdrawn, or its call has ended
	withdrawn bool
	refused   bool // answered with an error; read behind done
	accepted  bool // its user opens the page; read behind done
}

func (q *serverQuestion) end() {
	if !q.over {
		q.over = true
		close(q.done)
	}
}

// serverPage is a page that a user is to open.
type serverPage struct {
	call   *serverCall // that has named it last
	n      int         // the number of the question
	first  bool        // the call has failed because of it
	opened chan struct{}
	over   bool // it was opened
}

func pageURL(mark string, n int) string { return fmt.Sprint("https://pages.example/", mark, "/", n) }

func elicitationID(mark string, n int) string { return fmt.Sprint(mark, "-page-", n) }

// names returns the page of the n-th question of a call, which names it now.
func (c *serverCall) names(n int, first bool) *serverPage {
	url := pageURL(c.mark, n)
	p := c.sess.s.pages[url]
	if p == nil {
		p = &serverPage{opened: make(chan struct{})}
		c.sess.s.pages[url] = p
	}
	p.call, p.n, p.first = c, n, first
	return p
}

// Open opens the page of a URL, as the browser of a user does: no message says so. Its client is told.
func (s *Server) Open(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[url]
	if p == nil || p.over || s.closed {
		return
	}
	p.over = true
	close(p.opened)
	c := p.call
	sess := c.sess
	if p.first {
		s.tell(trace.Event{Who: sess.who, Session: sess.id, Kind: trace.Told, Mark: c.mark, Method: "elicitation/create", ID: visitKey(p.n), N: p.n, Text: "accept"})
	}
	if sess.over {
		return
	}
	out := c.out
	if c.over || c.plan.Away {
		out = sess.away()
	}
	id := elicitationID(c.mark, p.n)
	sess.send(out, trace.Event{Kind: trace.Completes, Mark: c.mark, ID: id, N: p.n}, writeRequest(nil, "notifications/elicitation/complete", object{"elicitationId": id}))
}

// unopened are the numbers of the pages that must be opened before the call is carried out.
func (c *serverCall) unopened() (all []int) {
	if c.modern {
		return nil // it asks as it asks anything
	}
	for _, a := range c.asks() {
		if p := c.sess.s.pages[pageURL(c.mark, a.n)]; a.first && (p == nil || !p.over) {
			all = append(all, a.n)
		}
	}
	return all
}

// requires fails a call because of pages that must be opened first.
func (c *serverCall) requires(pages []int) {
	var all []any
	for _, n := range pages {
		visit := askings["visit"]
		visit.n = n
		c.names(n, true)
		all = append(all, c.questionParams(visit))
	}
	const text = "The user must open pages"
	raw := writeError(c.m.ID, -32042, text, object{"elicitations": all})
	for _, n := range pages {
		c.sess.s.tell(trace.Event{Who: c.sess.who, Kind: trace.Asks, Mark: c.mark, Method: "elicitation/create", ID: visitKey(n), N: n, Session: c.sess.id, Conn: c.conn,
			Text: pageURL(c.mark, n), Raw: raw})
	}
	c.done(trace.Event{Failed: "-32042 " + text, Raw: raw})
	c.out.answer(raw, 200, !c.streams())
}

func visitKey(n int) string { return fmt.Sprint("visit-", n) }

// questionParams returns the parameters of a question.
func (c *serverCall) questionParams(a asking) object {
	n := a.n
	text := numbered(c.mark, "question", n)
	switch {
	case a.page:
		params := object{"mode": "url", "message": text, "url": pageURL(c.mark, n)}
		if !c.modern {
			params["elicitationId"] = elicitationID(c.mark, n)
		}
		return params
	case a.capability == "elicitation":
		params := object{"message": text, "requestedSchema": object{"type": "object",
			"properties": object{"answer": object{"type": "string", "title": "Answer"}}, "required": []string{"answer"}}}
		if since(c.revision, "2025-11-25") {
			params["mode"] = "form"
		}
		return params
	case a.capability == "sampling":
		return object{"maxTokens": 100, "messages": []any{object{"role": "user", "content": object{"type": "text", "text": text}}}}
	}
	return object{"_meta": object{"question": text}}
}

// urlOf is the URL of the n-th question; "" if it has none.
func (c *serverCall) urlOf(a asking) string {
	if !a.page {
		return ""
	}
	return pageURL(c.mark, a.n)
}

func (c *serverCall) ask(a asking) *serverQuestion {
	sess := c.sess
	sess.asked++
	id := json.RawMessage(strconv.Itoa(sess.asked))
	if sess.asked%2 == 0 {
		id = json.RawMessage(strconv.Quote(fmt.Sprint("question-", sess.asked)))
	}
	out := c.out
	if c.plan.Away {
		out = sess.away()
	}
	q := &serverQuestion{call: c, n: a.n, method: a.method, id: id, done: make(chan struct{})}
	if a.page {
		q.page = c.names(a.n, false)
	}
	sess.questions[string(id)] = q
	sess.send(out, trace.Event{Kind: trace.Asks, Mark: c.mark, Method: a.method, ID: string(id), N: a.n, Text: c.urlOf(a)},
		writeRequest(id, a.method, c.questionParams(a)))
	return q
}

// await waits for the answer to q and, if its user opens a page, for that; false if the call was stopped.
func (c *serverCall) await(q *serverQuestion) bool {
	select {
	case <-q.done:
	case <-c.stop:
		return false
	}
	if q.page == nil || !q.accepted {
		return true
	}
	select {
	case <-q.page.opened:
		return true
	case <-c.stop:
		return false
	}
}

// askAll asks, before 2026-07-28, and waits for the answers; false if the call was stopped, or fails.
func (c *serverCall) askAll() bool {
	var open []*serverQuestion
	for _, a := range c.asks() {
		if a.first {
			continue
		}
		if !c.locked(func() { open = append(open, c.ask(a)) }) {
			return false
		}
		if !c.plan.Together && (!c.await(open[len(open)-1]) || !c.sleep(c.plan.Gap)) {
			return false
		}
	}
	for _, q := range open {
		if !c.await(q) {
			return false
		}
	}
	if c.plan.Needs && slices.ContainsFunc(open, func(q *serverQuestion) bool { return q.refused }) {
		c.locked(func() { c.fail(-32050, numbered(c.mark, "failed", c.sess.s.carried[c.mark]), nil) })
		return false
	}
	return true
}

// askModern answers with questions, if some are left; false if it did. What it has to remember is in requestState: the mark, how often it
// was carried out, which questions were asked last, and which is the next one.
func (c *serverCall) askModern() bool {
	ask := c.asks()
	placeOf := func(n int) int { return slices.IndexFunc(ask, func(a asking) bool { return a.n == n }) }
	var open []int // places in ask
	goOn := c.locked(func() {
		s, count, next := c.sess.s, c.sess.s.carried[c.mark], 1
		if c.params.RequestState != "" {
			var mark, asked string
			if _, err := fmt.Sscan(c.params.RequestState, &mark, &count, &asked, &next); err != nil || mark != c.mark || next > len(ask)+1 {
				c.sess.strange("requestState is not that of this call: "+c.params.RequestState, c.m.raw)
				c.fail(-32602, "Invalid requestState", nil)
				return
			}
			for word := range strings.SplitSeq(asked, ",") {
				n, _ := strconv.Atoi(word)
				at := placeOf(n)
				if at < 0 {
					c.sess.strange("requestState is not that of this call, or its client can less than before: "+c.params.RequestState, c.m.raw)
					continue
				}
				reply, ok := c.params.InputResponses[questionKey(n)]
				if !ok {
					open = append(open, at)
					continue
				}
				s.tell(trace.Event{Who: c.sess.who, Kind: trace.Told, Mark: c.mark, Method: ask[at].method, ID: questionKey(n), N: n,
					Session: c.sess.id, Conn: c.conn, Text: replyText(ask[at].method, reply, nil), Raw: c.m.raw})
			}
		}
		for len(open) == 0 || c.plan.Together {
			if next > len(ask) {
				break
			}
			open, next = append(open, next-1), next+1
		}
		if len(open) == 0 {
			return
		}
		requests, asked := object{}, make([]string, len(open))
		for i, at := range open {
			a := ask[at]
			asked[i] = strconv.Itoa(a.n)
			requests[questionKey(a.n)] = object{"method": a.method, "params": c.questionParams(a)}
		}
		raw := writeResult(c.m.ID, object{"resultType": "input_required", "inputRequests": requests,
			"requestState": fmt.Sprint(c.mark, " ", count, " ", strings.Join(asked, ","), " ", next)})
		for _, at := range open {
			a := ask[at]
			s.tell(trace.Event{Who: c.sess.who, Kind: trace.Asks, Mark: c.mark, Method: a.method, ID: questionKey(a.n), N: a.n, Session: c.sess.id, Conn: c.conn,
				Text: c.urlOf(a), Raw: raw})
		}
		c.end()
		c.out.answer(raw, 200, !c.streams())
	})
	return goOn
}

func questionKey(n int) string { return fmt.Sprint("question-", n) }
