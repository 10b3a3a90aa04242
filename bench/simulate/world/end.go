package world

import (
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/proxy"
)

// calm ends all faults, lets what is open come to its end, and asks each client to call once more.
func (w *world) calm() {
	w.network.Heal()
	w.server.Do(script.Step{Who: "server", Verb: "up"})
	if w.store != nil {
		w.store.heal()
	}
	for name, p := range w.replicas {
		if name[0] == 'r' && (p.dead || p.stopping()) {
			w.restart(name)
		}
	}
	synctest.Wait()
	w.settle(20 * time.Minute)
	w.trace.Add(trace.Event{Kind: trace.Calm})
	for _, c := range w.script.Clients {
		if own := w.replicas["p"+c.Name[1:]]; c.Transport == "stdio" && (own == nil || own.stopping()) {
			continue // it has ended with the process of its own
		}
		w.trace.Add(trace.Event{Who: c.Name, Kind: trace.Expects, Mark: c.Name + ".999"})
		step, _ := script.ParseStep(c.Name + " call 999")
		w.do(step)
	}
	w.settle(time.Minute)
}

// settle waits until no client has an open request, or d is over.
func (w *world) settle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		synctest.Wait()
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
	synctest.Wait()
	w.trace.Add(trace.Event{Kind: trace.Over})
	time.Sleep(time.Minute)
	for _, p := range w.replicas {
		if !p.dead && !p.stopping() {
			w.left(p)
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
	w.network.Close()
}

// left looks at a process that has no client any more: only sessions that wait for their idle time may be left.
func (w *world) left(p *process) {
	if held := held(p.srv); held != "" {
		w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: "a minute after all clients have left, holds " + held})
	}
}

func held(*proxy.Server) string { return "" }
