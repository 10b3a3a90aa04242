package judge

import (
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// counted: the metrics of the processes have each request that a client got a result for, and no more requests than clients have sent.
func counted(w *world, wrong func(time.Duration, string, ...any)) {
	if w.killed() {
		return
	}
	again := 0 // with the answers to questions a client of 2026-07-28 sends its call again, perhaps to another process
	sent, got, good, all := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range w.all {
		switch {
		case e.Kind == trace.Counted:
			all[e.Method] += e.N
			switch e.Text {
			case "ok", "tool_error", "local", "left": // a client that has left may come back for its result
				good[e.Method] += e.N
			}
		case !isClient(e.Who):
		case e.Kind == trace.Note && e.Text == "a ghost": // which was refused if its session had ended
			sent[e.Method]++
		case e.Kind == trace.Calls || e.Kind == trace.Requests || e.Kind == trace.Subscribes || e.Kind == trace.Unsubscribe || e.Kind == trace.Begins || e.Kind == trace.Polls:
			sent[e.Method]++
		case e.Kind == trace.Replies:
			again++
		case e.Kind == trace.Answered && w.byMark[e.Mark] != nil && w.byMark[e.Mark].cancelled > 0: // it counts as cancelled
		case e.Kind == trace.Answered && w.byMark[e.Mark] != nil && w.isToVisit(w.byMark[e.Mark]): // an error of the server, which the client gets as a text
		case e.Kind == trace.Answered && (e.Failed == "" || strings.HasPrefix(e.Failed, "tool ")):
			got[e.Method]++
		}
	}
	for method := range got {
		if method == "initialize" || method == "server/discover" || method == "ping" || method == "subscriptions/listen" {
			continue
		}
		if good[method] < got[method] {
			wrong(w.over, "clients got %d results of %s, and %d were counted", got[method], method, good[method])
		}
	}
	if w.script.Replicas > 1 {
		return // one that another replica answers is counted there as well
	}
	for method, n := range all {
		if method != "initialize" && method != "subscriptions/listen" && sent[method] > 0 && n > sent[method]+again {
			wrong(w.over, "clients sent %d requests of %s, and %d were counted", sent[method], method, n)
		}
	}
}
