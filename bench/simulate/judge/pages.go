package judge

import (
	"bytes"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// pageRequired begins the error of a call whose client has to open pages first.
const pageRequired = "-32042 "

// openedTime is how long a call of 2026-07-28 waits, behind its client's answer, for what the server says of its pages.
const openedTime = 2 * time.Second

// isVisit reports whether the id of a question says that it was asked by an error: the call is sent again when its page was opened.
func isVisit(id string) bool { return strings.HasPrefix(id, "visit-") }

// required is how often the server has failed the call because of pages.
func (c *call) required() (n int) {
	for _, a := range c.answers {
		if strings.HasPrefix(a.Failed, pageRequired) {
			n++
		}
	}
	return n
}

func count(all []trace.Event, n int) (times int) {
	for _, e := range all {
		if e.N == n {
			times++
		}
	}
	return times
}

// opensPages reports whether a client has declared that its user opens pages.
func (w *world) opensPages(name string) bool {
	c := w.client(name)
	return c.Revision >= newestHandshake && !c.Without("url") && !c.Without("elicitation")
}

// cannotVisit reports whether c ends since its client cannot open the pages that the server has just required.
func (w *world) cannotVisit(c *call, end trace.Event) bool {
	return w.isToVisit(c) && end.At <= c.answers[len(c.answers)-1].At+moment
}

// isToVisit reports whether the server's last answer to c requires pages that its client cannot open.
func (w *world) isToVisit(c *call) bool {
	return !w.opensPages(c.owner) && len(c.answers) > 0 && strings.HasPrefix(c.answers[len(c.answers)-1].Failed, pageRequired)
}

// pages: that a page was opened reaches the client of its call, once, and no other client; a call is sent again when its pages were opened, and
// not before; and a client that cannot open them is told which they are.
func pages(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		w.completions(c, wrong)
		if w.isModern(c.owner) {
			w.visits(c, wrong)
		}
		if len(c.ends) > 0 && c.ends[0].Kind == trace.Answered && !c.shared && w.isToVisit(c) && c.how == "" {
			w.namesPages(c, wrong)
		}
	}
	w.tellsOfPages(wrong)
}

// completions looks at what a client is told of pages.
func (w *world) completions(c *call, wrong func(time.Duration, string, ...any)) {
	for _, e := range c.completed {
		switch said, r := find(c.completes, e.N), find(c.replies, e.N); {
		case e.Who != c.owner:
			wrong(e.At, "that page %d of %s was opened is told to %s", e.N, c.mark, e.Who)
		case find(c.asked, e.N) == nil:
			wrong(e.At, "page %d of %s was never asked for", e.N, c.mark)
		case count(c.completed, e.N) > 1 && !w.troubledWithin(c.owner, c.begins, e.At):
			wrong(e.At, "that page %d of %s was opened is told twice", e.N, c.mark)
		case said != nil && said.At <= e.At:
		case !w.modernServer() || r == nil || r.Text != "accept" || r.At > e.At: // a server of 2026-07-28 says nothing of it
			wrong(e.At, "page %d of %s was not opened", e.N, c.mark)
		}
	}
	if len(c.ends) == 0 || c.ends[0].Failed != "" || c.shared || w.client(c.owner).Revision != newestHandshake {
		return
	}
	end := c.ends[0]
	for _, a := range c.asks {
		if r := find(c.replies, a.N); a.Text == "" || !isKey(a.ID) || isVisit(a.ID) || r == nil || r.Text != "accept" || w.troubledWithin(c.owner, c.begins, end.At) {
			continue
		}
		if e := find(c.completed, a.N); e == nil || e.At > end.At {
			wrong(end.At, "%s is not told before its answer that page %d was opened", c.mark, a.N)
		}
	}
}

// tellsOfPages: what the server says of pages reaches clients that listen.
func (w *world) tellsOfPages(wrong func(time.Duration, string, ...any)) {
	if w.script.Has("upstream.share_child:") { // it names no request, so it may be for any of those that share the process
		return
	}
	l := w.listening()
	for _, e := range w.all {
		l.read(e)
		c := w.byMark[e.Mark]
		if e.Kind != trace.Completes || e.Failed != "" || w.client(c.owner).Revision != newestHandshake || c.how != "" && c.given <= e.At+moment || c.finished > 0 || e.At+moment > w.over {
			continue
		}
		if w.troubledWithin(c.owner, c.begins, e.At+moment) || find(c.completed, e.N) != nil && find(c.completed, e.N).At <= e.At+moment {
			continue
		}
		apart := isVisit(find(c.asks, e.N).ID) || len(c.ends) > 0 && c.ends[0].At <= e.At || c.plan.Away // on the standing stream
		if apart && (w.ungranted(e.At) || !l.surely(c.owner, e.At)) {
			continue
		}
		wrong(e.At, "that page %d of %s was opened does not reach its client", e.N, c.mark)
	}
}

// visits: of a client of 2026-07-28, dragoman sends a call again when its pages were opened, or the server has not said so in time.
func (w *world) visits(c *call, wrong func(time.Duration, string, ...any)) {
	again := 0 // which request comes after the error
	for i, a := range c.asks {
		if !isVisit(a.ID) || i > 0 && c.asks[i-1].At == a.At && c.asks[i-1].N < a.N {
			continue
		}
		again++
		answered, opened, told := time.Duration(0), time.Duration(0), true // those that were asked for at once
		for _, b := range c.asks[i:] {
			if b.At != a.At || b.N < a.N || !isVisit(b.ID) {
				break
			}
			r, o, s := findAfter(c.replies, b), findAfter(c.told, b), findAfter(c.completes, b)
			if r == nil || r.Text != "accept" {
				answered = 0
				break
			}
			answered, opened = max(answered, r.At), max(opened, r.At+openedTime)
			if o != nil && o.At < r.At+openedTime {
				opened = max(r.At, o.At)
			}
			told = told && s != nil && s.Failed == "" && s.At >= a.At+10*time.Millisecond && // else it may overtake the error
				!w.script.Has("upstream.share_child:")
		}
		if answered == 0 || c.shared || c.how != "" || w.troubledWithin(c.owner, c.begins, answered+openedTime+moment) {
			continue
		}
		due := answered + openedTime + moment
		if told {
			due = opened + moment
		}
		switch {
		case again < len(c.received) && c.received[again].At < opened:
			wrong(c.received[again].At, "%s is sent again before its pages are opened", c.mark)
		case (again == len(c.received) || c.received[again].At > due) && due < w.over && len(c.ends) > 0 && c.ends[0].At > due:
			wrong(due, "%s, whose pages are opened, is not sent again", c.mark)
		}
	}
}

// findAfter returns the first event of the number of e that is not before it.
func findAfter(all []trace.Event, e trace.Event) *trace.Event {
	for i := range all {
		if all[i].N == e.N && all[i].At >= e.At {
			return &all[i]
		}
	}
	return nil
}

// namesPages: the end of a call whose client cannot open pages says what is missing: the capability, from 2026-07-28 on, or the pages.
func (w *world) namesPages(c *call, wrong func(time.Duration, string, ...any)) {
	end, client := c.ends[0], w.client(c.owner)
	if strings.Contains(end.Failed, "upstream request failed") && w.excuse(c, end.At, "link-") { // the server's answer was lost with its connection
		return
	}
	if client.Revision >= modern {
		if !bytes.Contains(end.Raw, []byte(`"requiredCapabilities":{"elicitation":{"url"`)) {
			wrong(end.At, "%s, whose client opens no pages, ends with %q, which does not say so", c.mark, end.Failed)
		}
		return
	}
	if client.Revision < newestHandshake && bytes.Contains(end.Raw, []byte("-32042")) {
		wrong(end.At, "%s ends with an error that its client does not know: %s", c.mark, end.Failed)
	}
	for _, a := range c.asks {
		if isVisit(a.ID) && !w.script.Has("transform:") && !bytes.Contains(end.Raw, []byte(a.Text)) {
			wrong(end.At, "%s ends with %q, which does not name page %d", c.mark, end.Failed, a.N)
		}
	}
}
