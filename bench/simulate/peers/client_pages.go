package peers

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// Pages that a user opens at a URL.

// codePages is the code of the error that names pages which the user must open before the call.
const codePages = -32042

// elicits is what the client's elicitations may be: its capability.
func (c *Client) elicits() object {
	all := object{}
	for _, mode := range []string{"form", "url"} {
		if !c.o.Lacks(mode) {
			all[mode] = object{}
		}
	}
	return all
}

// able reports whether the client has declared that it can be asked q.
func (c *Client) able(q *question) bool {
	capability, _, _ := strings.Cut(q.method, "/")
	return !c.o.Lacks(capability) && !(capability == "elicitation" && c.o.Revision >= "2025-11" && c.o.Lacks(q.mode()))
}

// mode is that of an elicitation.
func (q *question) mode() string {
	if q.page != "" {
		return "url"
	}
	return "form"
}

// visit has the user open the page of q, to which the client has answered with result.
func (c *Client) visit(q *question, result any, opens time.Duration) {
	if answer, _ := result.(object); q.page != "" && answer["action"] == "accept" && c.o.Open != nil {
		c.later(opens, func() { c.o.Open(q.page) })
	}
}

// pagesPatience is how long a client waits, behind the time at which a page was opened, to be told so.
const pagesPatience = 5 * time.Second

// visits asks the user to open the pages that the error m names, and sends k again when that is done; false if k has ended with the error.
func (k *call) visits(m *message, x *exchange) bool {
	s := k.s
	if m.Error == nil || m.Error.Code != codePages || s.revision < "2025-11-25" || s.c.modern || k.mark == "" || s.c.gone || s.c.o.Lacks("url") || s.c.o.Lacks("elicitation") {
		return false
	}
	var data struct{ Elicitations []json.RawMessage }
	if err := json.Unmarshal(m.Error.Data, &data); err != nil || len(data.Elicitations) == 0 {
		s.strange(x, "an error that names no pages", m.raw)
		return false
	}
	k.unregister()
	k.x, k.pages = nil, nil
	for _, params := range data.Elicitations {
		k.pages = append(k.pages, s.ask(&message{ID: json.RawMessage("page"), Method: "elicitation/create", Params: params, raw: m.raw}, x))
	}
	switch {
	case k.silent:
		k.end()
	case k.plan.Reply == script.ReplyNever:
		s.note(x, trace.Event{Kind: trace.Unheard, Mark: k.mark, Method: k.method, ID: k.id, Text: "its user never answers"})
		k.quiet()
		k.end()
	default:
		s.c.later(k.plan.Late, func() { k.agree(m, x) })
	}
	return true
}

// agree answers, for the user, whether it opens pages.
func (k *call) agree(m *message, x *exchange) {
	if k.silent {
		k.end()
	}
	if k.ended {
		return
	}
	s, refused := k.s, false
	for _, q := range k.pages {
		result, failed := s.reply(q)
		s.note(nil, trace.Event{Kind: trace.Replies, Mark: q.mark, Method: q.method, ID: k.id, N: q.n, Text: replyText(q.method, encode(result), failed)})
		answer, _ := result.(object)
		refused = refused || answer["action"] != "accept"
		s.c.visit(q, result, k.plan.Opens)
	}
	if refused {
		k.pages = nil
		k.end()
		s.note(x, trace.Event{Kind: trace.Answered, Mark: k.mark, Method: k.method, ID: k.id, Failed: m.Error.String(), Raw: m.raw})
		return
	}
	s.c.later(k.plan.Opens+pagesPatience, k.sendAgain)
}

// sendAgain sends k again, whose pages were opened.
func (k *call) sendAgain() {
	waits := k.pages != nil
	k.pages = nil
	if waits && k.goesOn() {
		k.s.send(k.s.register("", k, "", ""), k)
	}
}

// goesOn reports whether k is not over and its client can send more of it. If the client cannot, goesOn ends k.
func (k *call) goesOn() bool {
	switch s := k.s; {
	case k.ended:
	case k.silent:
		k.end()
	case s.c.gone:
		k.refuse("ended: the client says no more")
	case s.over:
		k.refuse("status 404: the session is lost")
	default:
		return true
	}
	return false
}

// completed takes the notification that the page of an elicitation was opened.
func (s *clientSession) completed(id string, x *exchange, m *message) {
	q := s.c.pages[id]
	if q == nil {
		s.strange(x, "the end of an elicitation that was not asked", m.raw)
		return
	}
	q.opened = true
	s.note(x, trace.Event{Kind: trace.Completed, Mark: q.mark, Method: m.Method, ID: id, N: q.n, Raw: m.raw})
	if k := s.c.calls[q.mark]; k != nil && k.pages != nil && !slices.ContainsFunc(k.pages, func(q *question) bool { return !q.opened }) {
		k.sendAgain()
	}
}
