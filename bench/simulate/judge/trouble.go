package judge

import (
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// troubled notes the trouble that e, event i, makes: until when it may show, and at which client. What comes later is no consequence of it: so a
// lost wake-up does not hide behind a fault.
func (w *world) troubled(i int, e trace.Event) {
	add := func(client, what string, for_ time.Duration) {
		w.troubles = append(w.troubles, trouble{what: what, from: e.At, to: e.At + for_, client: client, event: i})
	}
	switch {
	case e.Kind == trace.Step:
		w.fault(i, add)
	case e.Kind == trace.Started && e.Via != "":
		w.owner[e.Who] = e.Via
	case e.Who != "" && e.Who[0] == 'r' && (e.Kind == trace.Died || e.Kind == trace.Started):
		if w.up[e.Who] = e.Kind == trace.Started; !w.up[e.Who] {
			delete(w.up, e.Who)
		}
		for i := range w.troubles {
			if t := &w.troubles[i]; e.Kind == trace.Started && t.what == "operator-down" {
				t.to = min(t.to, e.At)
			}
		}
		if len(w.up) == 0 {
			add("", "operator-down", time.Hour)
		}
	case e.Kind == trace.Died && e.Who != "" && e.Who[0] == 'p': // the process of a client on stdio, which has no other
		add("c"+e.Who[1:], "own-died", time.Hour)
	case e.Kind == trace.Gone:
		w.gone[e.Who] = true
	case e.Kind == trace.Died && w.gone[e.Who] && e.Failed == "": // dragoman has ended it: see waited
	case e.Kind == trace.Died:
		if t := w.script.Server.Transport; t == "stdio" {
			add("", "server-died", moment)
		} else {
			add("", "server-died", 2*moment)
		}
	case e.Kind == trace.Answers && e.Failed == "cut" && w.script.Server.Transport == "sse":
		add("", "server-cut", 2*moment) // of the stream that is the whole session
	case e.Kind == trace.Loses:
		add("", "server-loses", moment+w.agreeing)
	}
}

// fault notes what a step of the schedule, event i, does to the world.
func (w *world) fault(i int, add func(client, what string, for_ time.Duration)) {
	step, err := script.ParseStep(w.all[i].Text)
	if err != nil {
		return
	}
	w.steps = append(w.steps, done{i, step})
	d := func(i int) time.Duration { d, _ := time.ParseDuration(step.Word(i)); return d }
	switch step.Who {
	case "link":
		client := ""
		for _, host := range []string{step.Verb, step.Word(0)} {
			if strings.HasPrefix(host, "c") {
				client = host
			}
		}
		switch what := step.Word(1); what {
		case "cut":
			if step.Word(2) == "" || step.Word(2) == "0" {
				add(client, "link-cut", moment+w.hesitation) // its client comes back after a second, and only then the server is asked for the rest
			} else {
				add(client, "link-cut", time.Hour) // it is cut when so many bytes have gone
			}
		case "half":
			add(client, "link-half", time.Minute)
		case "vanish":
			add(client, "link-vanish", 10*time.Minute)
		case "stall", "trickle":
			add(client, "link-"+what, d(2)+30*time.Second)
		}
		switch what := step.Word(0); what {
		case "refuse", "hang":
			add("", "link-"+what, d(1)+30*time.Second)
		}
	case "operator":
		switch step.Verb {
		case "stop", "kill":
			add("", "operator-"+step.Verb, 15*time.Second)
		case "store":
			add("", "store-"+step.Word(0), d(1)+5*time.Second)
			if step.Word(0) == "slow" {
				w.agreeing = 10 * d(1)
			}
		}
	case "server":
		switch step.Verb {
		case "restart", "lose":
			add("", "server-"+step.Verb, 2*moment+w.agreeing)
			if step.Word(0) == "refusing" {
				add("", "server-refuses", d(1)+2*moment)
			}
		case "closestreams":
			if w.script.Server.Transport == "sse" { // the session ends with it
				add("", "server-closestreams", 2*moment)
			}
		case "hesitate":
			w.hesitation = max(w.hesitation, d(0))
		case "die":
			add("", "server-die", 10*time.Minute)
		case "deaf":
			add("", "server-deaf", d(0)+2*moment)
		case "status":
			add("", "server-status", d(1)+2*moment)
		case "slow":
			add("", "server-slow", 10*time.Minute)
		}
	default: // a client
		switch step.Verb {
		case "deaf":
			add(step.Who, "client-deaf", d(0)+30*time.Second)
		case "garbage":
			add(step.Who, "client-garbage", moment)
		case "delete", "leave", "forget", "same", "hang":
			add(step.Who, "client-"+step.Verb, moment)
		}
	}
}
