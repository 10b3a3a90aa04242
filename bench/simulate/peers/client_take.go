package peers

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// question is one that the server asked, or a ping.
type question struct {
	mark, method string
	n            int
	page         string // the URL of what the user opens; "" for none
	revoked      bool
	opened       bool // it was told that the page was opened
}

// listen is a subscriptions/listen of 2026-07-28.
type listen struct {
	uri   string // "" for that of the lists
	pause time.Duration
}

// takeAll takes what came in an event or a line. x is nil for a pipe. The lock is held.
func (s *clientSession) takeAll(data []byte, x *exchange) {
	all, batch, err := readMessages(data)
	if err != nil {
		s.strange(x, "a broken frame: "+err.Error(), bytes.Clone(data))
	}
	if batch && s.revision != "2025-03-26" {
		s.strange(x, "a batch, which the revision has not", bytes.Clone(data))
	}
	for _, m := range all {
		s.take(m, x)
	}
}

// take takes a message.
func (s *clientSession) take(m *message, x *exchange) {
	switch {
	case m.request():
		s.question(m, x)
	case m.notification():
		s.told(m, x)
	default:
		s.answer(m, x)
	}
}

// find returns the request that an answer is to; nil for none.
func (s *clientSession) find(m *message, x *exchange) *call {
	if x != nil {
		for _, k := range x.calls {
			if k.id == m.id() && k.x == x && !k.ended {
				return k
			}
		}
	}
	list := s.open[m.id()]
	switch {
	case len(list) == 0:
		return nil
	case m.Error != nil && m.Error.Code == -32600: // the second one is refused
		return list[len(list)-1]
	}
	for _, k := range list {
		if !k.silent {
			return k
		}
	}
	return list[0]
}

// answer takes a response.
func (s *clientSession) answer(m *message, x *exchange) {
	k := s.find(m, x)
	switch {
	case k == nil && (m.ID == nil || m.id() == "null") && m.Error != nil && s.c.spoilt:
		s.note(x, trace.Event{Kind: trace.Note, Text: "garbage", Failed: m.Error.String()})
		return
	case k == nil && m.id() == `"bad"` && s.c.spoilt: // the id that garbage has
		return
	case k == nil && s.answered[m.id()] == "refused" && s.c.o.Transport == "sse": // the POST failed, and had arrived
		return
	case k == nil && s.answered[m.id()] != "":
		s.strange(x, "a second answer to the request of id "+m.id(), m.raw)
		return
	case k == nil:
		s.strange(x, "an answer to the id "+m.id()+", which no request had", m.raw)
		return
	}
	if s.c.o.Transport == "http" && k.x != x {
		s.strange(x, "an answer on another's stream: "+k.mark+" "+k.method, m.raw)
	}
	if (m.Result != nil) == (m.Error != nil) || bytes.Contains(m.raw, []byte(`"error":null`)) || bytes.Contains(m.raw, []byte(`"result":null`)) {
		s.strange(x, "an answer with both result and error, or neither", m.raw)
	}
	s.answered[m.id()] = "answered"
	var r struct {
		ResultType   string
		IsError      bool
		RequestState *string
		Requests     map[string]struct {
			Method string
			Params json.RawMessage
		}
	}
	if m.Error == nil {
		err := readMembers(m.Result, map[string]any{"resultType": &r.ResultType, "isError": &r.IsError, "requestState": &r.RequestState, "inputRequests": &r.Requests})
		if err != nil {
			s.strange(x, "a result that is none: "+err.Error(), m.raw)
		}
		if (r.ResultType != "") != s.c.modern {
			s.strange(x, "a result of another era", m.raw)
		}
	}
	for _, q := range r.Requests {
		if q.Method == "" && k.plan.How == script.Nameless { // passed on as the server has it
			k.end()
			s.note(x, trace.Event{Kind: trace.Answered, Mark: k.mark, Method: k.method, ID: k.id, Raw: m.raw, Failed: "a question without a method"})
			return
		}
	}
	if r.ResultType == "input_required" {
		k.unregister()
		k.x = nil
		if r.RequestState == nil && len(r.Requests) == 0 || k.method != "tools/call" && k.method != "resources/read" && k.method != "prompts/get" {
			s.strange(x, "an input_required that has no place here", m.raw)
		}
		var questions []*message
		for _, key := range slices.Sorted(maps.Keys(r.Requests)) {
			questions = append(questions, &message{ID: json.RawMessage(key), Method: r.Requests[key].Method, Params: r.Requests[key].Params, raw: m.raw})
		}
		k.inputRequired(questions, r.RequestState, x)
		return
	}
	if k.ended || k.takesTask(m, x) || k.visits(m, x) {
		return
	}
	k.end()
	if k.listen != nil {
		s.answered[k.id] = "listen"
		why := "result"
		if m.Error != nil {
			why = m.Error.String()
		}
		k.stopped(why)
		return
	}
	if !s.ok {
		s.hello(k, x, m)
		return
	}
	e := trace.Event{Kind: trace.Answered, Mark: k.mark, Method: k.method, ID: k.id, Raw: m.raw}
	if m.Error != nil {
		e.Failed = m.Error.String()
	} else {
		e.Text = contentText(m.Result)
		if text := adaptedText(e.Text); text != "" {
			e.Text = text
		}
		e.Text = e.Text[:min(len(e.Text), 200)]
		if r.IsError {
			e.Failed = "tool " + e.Text
		}
	}
	s.note(x, e)
	switch {
	case k.then != nil:
		k.then(m.Result, e.Failed)
	case k.plan.More != "" && e.Failed == "" && k.method == "tools/call":
		s.readOn(k, m.Result)
	}
}

// ask notes a question and returns it; method and text say what and whose it is.
func (s *clientSession) ask(m *message, x *exchange) *question {
	q := &question{method: m.Method}
	q.mark, q.n = readNumbered(questionText(m.Method, m.Params), "question")
	var p struct {
		Messages        []json.RawMessage
		MaxTokens       int
		Message         string
		RequestedSchema json.RawMessage
		Mode            string
		URL             string
		ElicitationID   string
	}
	_ = json.Unmarshal(m.Params, &p)
	q.page = p.URL
	s.note(x, trace.Event{Kind: trace.Asked, Mark: q.mark, Method: m.Method, ID: m.id(), N: q.n, Text: p.URL, Raw: m.raw})
	if p.ElicitationID != "" {
		s.c.pages[p.ElicitationID] = q
	}
	switch {
	case q.mark == "",
		m.Method == "sampling/createMessage" && (len(p.Messages) == 0 || p.MaxTokens == 0),
		m.Method == "elicitation/create" && (p.Message == "" || (p.RequestedSchema == nil) != (p.Mode == "url") || (p.URL == "") != (p.Mode != "url") || p.Mode == "url" && (p.ElicitationID == "") != s.c.modern):
		s.strange(x, "a question without what it should have", m.raw)
	case s.c.modern && !s.c.able(q):
		s.strange(x, "a question that the client has not declared", m.raw)
	case m.Method == "elicitation/create" && (s.revision < "2025-06-18" || p.Mode == "url" && s.revision < "2025-11-25"):
		s.strange(x, "a question that the revision has not", m.raw)
	}
	return q
}

// plan returns how the client answers q.
func (s *clientSession) plan(q *question) script.Plan {
	if k := s.c.calls[q.mark]; k != nil {
		return k.plan
	}
	return script.Plan{}
}

// reply returns the result or the error that answers q.
func (s *clientSession) reply(q *question) (result any, failed *rpcError) {
	capability, _, _ := strings.Cut(q.method, "/")
	if s.c.o.Lacks(capability) && !s.c.modern {
		return nil, &rpcError{Code: -32601, Message: "Method not found"}
	}
	if !s.c.modern && !s.c.able(q) {
		return nil, &rpcError{Code: -32602, Message: "this client is not asked by " + q.mode()}
	}
	how, text, elicits := s.plan(q).Reply, numbered(q.mark, "answer", q.n), q.method == "elicitation/create"
	switch declines := how == script.ReplyError || how == script.Decline; {
	case declines && how == script.Decline && elicits:
		return object{"action": "decline"}, nil
	case declines && !s.c.modern:
		return nil, &rpcError{Code: -1, Message: "the user does not want to"}
	case declines && elicits: // 2026-07-28 has no errors here
		return object{"action": "cancel"}, nil
	case declines:
		text = "the user does not want to"
	}
	switch q.method {
	case "elicitation/create":
		if q.page != "" {
			return object{"action": "accept"}, nil
		}
		return object{"action": "accept", "content": object{"answer": text}}, nil
	case "sampling/createMessage":
		return object{"role": "assistant", "model": "none", "content": object{"type": "text", "text": text}}, nil
	}
	return object{"roots": []any{object{"uri": "file:///" + q.mark, "name": text}}}, nil
}

// question takes a request of the server.
func (s *clientSession) question(m *message, x *exchange) {
	if m.Method == "ping" && !s.c.modern {
		s.note(x, trace.Event{Kind: trace.Pinged, ID: m.id(), Method: m.Method, Raw: m.raw})
		s.asked[m.id()] = &question{method: m.Method}
		s.deliver(writeResult(m.ID, object{}), trace.Event{Method: m.Method, ID: m.id()})
		return
	}
	switch m.Method {
	case "elicitation/create", "sampling/createMessage", "roots/list":
	default:
		s.strange(x, "a request that a client does not know", m.raw)
		return
	}
	if s.c.modern {
		s.strange(x, "a request to a client of 2026-07-28", m.raw)
		return
	}
	q := s.ask(m, x)
	s.asked[m.id()] = q
	plan := s.plan(q)
	if plan.Reply == script.ReplyNever {
		return
	}
	leaves := s.leaves
	s.c.later(plan.Late, func() {
		if q.revoked || s.over || s.leaves != leaves || s.c.gone {
			return
		}
		result, failed := s.reply(q)
		raw := writeResult(m.ID, result)
		if failed != nil {
			raw = writeError(m.ID, failed.Code, failed.Message, nil)
		}
		times := 1
		if plan.Reply == script.ReplyTwice {
			times = 2
		}
		for range times {
			e := trace.Event{Mark: q.mark, Method: q.method, ID: m.id(), N: q.n}
			said := e
			said.Kind, said.Text, said.Raw = trace.Replies, replyText(q.method, encode(result), failed), raw
			s.note(nil, said)
			s.deliver(raw, e)
		}
		s.c.visit(q, result, plan.Opens)
	})
}

// inputRequired asks the user, and sends k again with the answers.
func (k *call) inputRequired(asked []*message, state *string, x *exchange) {
	s := k.s
	var questions []*question
	for _, m := range asked {
		questions = append(questions, s.ask(m, x))
	}
	if k.silent {
		k.end()
		return
	}
	pause := k.plan.Late
	if len(asked) == 0 {
		pause = 250 * time.Millisecond
	} else if k.plan.Reply == script.ReplyNever {
		s.note(x, trace.Event{Kind: trace.Unheard, Mark: k.mark, Method: k.method, ID: k.id, Text: "its user never answers"})
		k.quiet()
		k.end()
		return
	}
	s.c.later(pause, func() {
		if k.ended || k.silent || s.over || s.c.gone {
			k.end()
			return
		}
		params := maps.Clone(k.params)
		k.params = maps.Clone(params)
		if state != nil {
			params["requestState"] = *state
		}
		answers := object{}
		for i, q := range questions {
			answers[asked[i].id()], _ = s.reply(q)
		}
		if len(answers) > 0 {
			params["inputResponses"] = answers
		}
		plain := k.params
		k.params = params
		raw := s.register("", k, "", "")
		k.params = plain
		for i, q := range questions {
			s.note(nil, trace.Event{Kind: trace.Replies, Mark: q.mark, Method: q.method, ID: k.id, N: q.n, Text: replyText(q.method, encode(answers[asked[i].id()]), nil), Raw: raw})
		}
		s.send(raw, k)
		for i, q := range questions {
			s.c.visit(q, answers[asked[i].id()], k.plan.Opens)
		}
	})
}

// told takes a notification.
func (s *clientSession) told(m *message, x *exchange) {
	var p struct {
		ProgressToken json.RawMessage
		Progress      float64
		Message       string
		Level         string
		Data          json.RawMessage
		URI           string
		RequestID     json.RawMessage
		ElicitationID string
		N             int
		Text          string
		Notifications map[string]json.RawMessage
		Meta          struct {
			Version      int
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil && m.Params != nil {
		s.strange(x, "a notification that cannot be read: "+err.Error(), m.raw)
		return
	}
	e := trace.Event{Method: m.Method, ID: string(p.Meta.Subscription), Raw: m.raw}
	var of *call // the listen that it belongs to
	if p.Meta.Subscription != nil {
		for _, k := range s.open[string(p.Meta.Subscription)] {
			if k.listen != nil {
				of = k
			}
		}
		if of == nil {
			s.strange(x, "a notification of a subscription that there is not", m.raw)
			return
		}
		if s.c.o.Transport == "http" && of.x != x {
			s.strange(x, "a notification on the stream of another subscription", m.raw)
		}
	}
	switch m.Method {
	case "notifications/progress":
		var token string
		if _ = json.Unmarshal(p.ProgressToken, &token); s.c.calls[token] == nil {
			s.strange(x, "progress of an unknown token", m.raw)
			return
		}
		e.Kind, e.Mark, e.N = trace.Progressed, token, int(p.Progress)
	case "notifications/message":
		var text string
		if err := json.Unmarshal(p.Data, &text); err != nil || p.Level == "" {
			s.strange(x, "a log message without what it should have", m.raw)
		}
		e.Kind, e.Text = trace.Logged, text
		e.Mark, e.N = readNumbered(text, "log")
	case "notifications/resources/updated":
		e.Kind, e.Text, e.N = trace.Updated, p.URI, p.Meta.Version
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		e.Kind, e.Text = trace.Changed, m.Method
	case announced:
		if e.Kind, e.Text, e.N = trace.Changed, m.Method, p.N; p.Text != announcement(p.N) {
			s.strange(x, "an announcement that the server has not made", m.raw)
		}
	case "notifications/elicitation/complete":
		s.completed(p.ElicitationID, x, m)
		return
	case "notifications/cancelled":
		if of := s.open[string(p.RequestID)]; s.c.modern && len(of) > 0 && of[0].listen != nil {
			of[0].end()
			of[0].stopped("cancelled")
			return
		}
		if s.answered[string(p.RequestID)] == "listen" { // as 2026-07-28 has it on pipes, after the result
			return
		}
		q := s.asked[string(p.RequestID)]
		if q == nil {
			s.strange(x, "the end of a question that was not asked", m.raw)
			return
		}
		if q.method == "ping" { // which was answered at once
			return
		}
		q.revoked = true
		e.Kind, e.Mark, e.ID, e.N = trace.Revoked, q.mark, string(p.RequestID), q.n
	case "notifications/subscriptions/acknowledged":
		if of == nil {
			s.strange(x, "the acknowledgement of no subscription", m.raw)
			return
		}
		of.acknowledged(p.Notifications, m.raw)
		return
	default:
		s.strange(x, "a notification that a client does not know", m.raw)
		return
	}
	if s.c.modern && of == nil && (e.Kind == trace.Updated || e.Kind == trace.Changed && m.Method != announced) {
		s.strange(x, "a notification outside its subscription", m.raw)
	}
	s.note(x, e)
}

// listenTo subscribes to uri, or to the changes of lists if it is "", or ends that. The client is modern.
func (s *clientSession) listenTo(kind trace.Kind, uri string) {
	old := s.listens[uri]
	if kind == trace.Unsubscribe {
		if old != nil {
			s.note(nil, trace.Event{Kind: kind, Method: old.method, ID: old.id, Text: uri})
			old.stop()
		}
		return
	}
	if old == nil {
		s.startListen(kind, &listen{uri: uri, pause: time.Second})
	}
}

func (s *clientSession) startListen(kind trace.Kind, l *listen) {
	to := object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}
	if l.uri != "" {
		to = object{"resourceSubscriptions": []string{l.uri}}
	}
	k := &call{method: "subscriptions/listen", params: object{"notifications": to}, listen: l}
	s.listens[l.uri] = k
	s.request(kind, k, "", l.uri)
}

// acknowledged notes that a listen has begun.
func (k *call) acknowledged(accepted map[string]json.RawMessage, raw []byte) {
	l := k.listen
	e := trace.Event{Kind: trace.Opened, Method: k.method, ID: k.id, Text: l.uri, Raw: raw}
	if len(accepted) == 0 || l.uri != "" && !bytes.Contains(accepted["resourceSubscriptions"], []byte(l.uri)) {
		e.Kind, e.Text = trace.Closed, "nothing was accepted"
		k.stop()
	}
	l.pause = time.Second
	k.s.note(k.x, e)
}

// stopped notes that a listen has ended, though the client did not want it, and begins it again after a pause.
func (k *call) stopped(why string) {
	s, l := k.s, k.listen
	if k.silent {
		return
	}
	s.note(k.x, trace.Event{Kind: trace.Closed, Method: k.method, ID: k.id, Text: why})
	pause := l.pause
	l.pause = min(2*pause, 32*time.Second)
	s.c.later(pause, func() {
		if s.listens[l.uri] == k && !s.over && !s.c.gone {
			s.startListen("", l)
		}
	})
}

// stop ends a listen.
func (k *call) stop() {
	delete(k.s.listens, k.listen.uri)
	if !k.ended {
		k.quiet()
		if !k.s.c.gone && !k.s.c.closed {
			k.giveUp()
		}
	}
}
