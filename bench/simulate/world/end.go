package world

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/proxy"
)

// calm ends all faults, lets what is open come to its end, and asks each client to call once more.
func (w *world) calm() {
	w.network.Heal()
	for _, heals := range []string{"up", "status", "slow", "deaf"} { // without a time: from now on no longer
		w.server.Do(script.Step{Who: "server", Verb: heals})
	}
	if w.store != nil {
		w.store.heal()
	}
	for name, p := range w.replicas {
		if name[0] == 'r' && (p.dead || p.stopping()) {
			w.restart(name)
		}
	}
	w.network.Rest()
	if w.store != nil {
		time.Sleep(10 * time.Second) // until the replicas are found again: see docs/replicas.md
	}
	w.settle(longestSilence)
	w.trace.Add(trace.Event{Kind: trace.Calm})
	time.Sleep(15 * time.Second)
	w.each("call 998") // which may learn that its session is no more
	w.settle(20 * time.Second)
	w.each("call 999")
	w.settle(time.Minute)
}

// longestSilence is how long a call may wait for a server that has lost it: twice the longest limit of silence that worlds set, as any
// message on a pipe begins it again.
const longestSilence = 45 * time.Minute

// each makes each client do something that must succeed if it is the last thing that it does.
func (w *world) each(what string) {
	for _, c := range w.script.Clients {
		if own := w.replicas["p"+c.Name[1:]]; c.Transport == "stdio" && (own == nil || own.stopping()) {
			continue // it has ended with the process of its own
		}
		step, _ := script.ParseStep(c.Name + " " + what)
		w.trace.Add(trace.Event{Who: c.Name, Kind: trace.Expects, Mark: step.Mark()})
		w.do(step)
	}
}

// settle waits until no client has an open request, or d is over.
func (w *world) settle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		w.network.Rest()
		busy := false
		for _, c := range w.clients {
			busy = busy || c.Busy()
		}
		if !busy {
			return
		}
	}
}

// close lets all peers leave, and ends all processes, which must hold nothing then.
func (w *world) close() {
	for _, c := range w.script.Clients {
		w.clients[c.Name].Close()
	}
	w.network.Rest()
	w.trace.Add(trace.Event{Kind: trace.Over})
	time.Sleep(idle)
	for _, p := range w.replicas {
		if !p.dead && !p.stopping() {
			w.holds(p, longAfter)
		}
	}
	for _, p := range w.replicas {
		p.stop()
	}
	for _, p := range w.replicas {
		w.await(p, "does not end")
	}
	w.running.Wait()
	w.server.Close()
	if w.api != nil {
		w.api.Close()
	}
	w.network.Close()
}

// idle is how long a session without a client may last: session.idle_timeout, and what it takes to notice.
const idle = 32 * time.Minute

const longAfter = "long after all clients have left"

// holds checks that a process, which has no client, holds nothing.
func (w *world) holds(p *process, when string) {
	held := p.srv.Held()
	if held.Bytes+held.Kept != 0 {
		time.Sleep(time.Minute) // a timer that was stopped refers to what it would have done until it would have been due
	}
	shared := when == longAfter && slices.Contains(w.script.Settings, "upstream.share_child: true")
	for i := range 100 { // some bytes are counted until the garbage collector has found that nothing refers to them
		if shared || held.Bytes == 0 && held.Kept == 0 {
			break
		}
		if i%20 == 0 {
			runtime.GC()
		}
		runtime.Gosched()
		held = p.srv.Held()
	}
	if shared {
		held.Processes, held.Kept, held.Bytes = 0, 0, 0 // the process that sessions share stays until the end
	}
	if held != (proxy.Held{}) {
		w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: fmt.Sprintf("holds%s %s", counts(held), when)})
	}
}

// counts is what a value has that is not zero: " Calls=1 Kept=564".
func counts(held any) string {
	text := ""
	for at, v := range reflect.ValueOf(held).Fields() {
		switch {
		case v.IsZero():
		case v.Kind() == reflect.Struct:
			text += " " + at.Name + ":" + counts(v.Interface())
		default:
			text += fmt.Sprintf(" %s=%v", at.Name, v.Interface())
		}
	}
	return text
}

// counters are those that the judge reads: how they are written down, and which labels are the text.
var counters = map[string]struct {
	kind trace.Kind
	text []string
}{
	"dragoman_requests_total":         {trace.Counted, []string{"outcome"}},
	"dragoman_messages_dropped_total": {trace.Dropped, []string{"reason"}},
	"dragoman_losses_total":           {trace.Removed, []string{"rule", "from", "to"}},
}

// ofAll are the metrics of Go and of the system's process, which all replicas share. To read them takes longer than all others.
var ofAll = []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}

// counted writes down what a process has counted in its metrics, which ends.
func (w *world) counted(p *process) {
	for _, c := range ofAll {
		p.srv.Metrics.Registry.Unregister(c)
	}
	families, err := p.srv.Metrics.Registry.Gather()
	if err != nil {
		w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: "its metrics cannot be read", Failed: err.Error()})
		return
	}
	for _, f := range families {
		counter, is := counters[f.GetName()]
		if !is {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			var text []string
			for _, name := range counter.text {
				text = append(text, labels[name])
			}
			w.trace.Add(trace.Event{Who: p.name, Kind: counter.kind, N: int(m.GetCounter().GetValue()), Method: labels["method"], Text: strings.Join(text, " ")})
		}
	}
}
