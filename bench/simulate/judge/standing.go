package judge

import (
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// streamTime is how long what a client on a pipe sends behind notifications/initialized waits for the server's standing stream.
const streamTime = 2 * time.Second

// ungranted reports whether the server may not have granted a standing stream yet at a time, since it takes at least streamTime for it.
func (w *world) ungranted(at time.Duration) bool {
	hesitation := time.Duration(0)
	for _, e := range w.all {
		if e.Kind != trace.Step {
			continue
		}
		step, err := script.ParseStep(e.Text)
		if err != nil || step.Who != "server" || step.Verb != "hesitate" {
			continue
		}
		if e.At > at {
			break
		}
		if hesitation >= streamTime && at <= e.At+hesitation {
			return true // it was asked for before
		}
		hesitation, _ = time.ParseDuration(step.Word(0))
	}
	return hesitation >= streamTime
}
