package secrettest

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// Linear checks that do takes time linear in the length of its input: for each of inputs, which make one of n bytes, it compares the times
// for lengths that grow tenfold, twice. Quadratic time would grow a hundredfold each time; limit is how far it may grow.
func Linear[T any](t *testing.T, inputs map[string]func(n int) T, limit time.Duration, do func(T)) {
	t.Helper()
	const small, steps, grow = 4 << 10, 2, 10
	measure := func(in T) time.Duration { return peertest.ProcessorTime(func() { do(in) }) }
	for name, make := range inputs {
		for n, step := small, 0; step < steps; n, step = n*grow, step+1 {
			less, more := make(n), make(n*grow)
			short, long := time.Hour, time.Hour
			for try := range 20 { // the first ones are slow, quadratic time makes all of them so
				short, long = min(short, measure(less)), min(long, measure(more))
				if try > 0 && long <= limit*short {
					break
				}
			}
			if long > limit*max(short, 20*time.Microsecond) {
				t.Errorf("%.20q: %v for %d bytes, and %v for %d bytes", name, short, n, long, n*grow)
			}
			if testing.Verbose() && step+1 == steps {
				t.Logf("%.20q: %v for %d bytes, and %v for %d bytes", name, short, n, long, n*grow)
			}
		}
	}
}
