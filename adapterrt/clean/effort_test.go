//go:build !race

// The race detector takes most of the time, and more than its share for long texts.

package clean

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestTimeIsLinear masks bodies that are slow for a search that reads parts of them again and again, and compares the times for
// sizes that grow tenfold: quadratic time would grow a hundredfold.
func TestTimeIsLinear(t *testing.T) {
	inText := func(n int) []byte {
		return wire.AppendQuoted(nil, `[`+strings.Repeat(`"{\"token\":1}",`, n/16)+"1]")
	}
	for name, make := range map[string]func(n int) []byte{
		"members":      func(n int) []byte { return []byte(`{"a":0` + strings.Repeat(`,"token":"v"`, n/12) + "}") },
		"wide":         func(n int) []byte { return []byte(`{"a":[` + strings.Repeat(`"password",`, n/11) + `1],"token":"v"}`) },
		"JSON in text": inText,
		"text in text": func(n int) []byte { return wire.AppendQuoted(nil, "["+string(inText(n/2))+"]") },
		"nested": func(n int) []byte {
			deep := strings.Repeat(`{"a":[`, 200) + "1" + strings.Repeat("]}", 200)
			return []byte("[" + strings.Repeat(deep+",", n/len(deep)+1) + "1]")
		},
		"beside": func(n int) []byte {
			return []byte("[" + strings.Repeat(`{"loc":["a","token"],"input":"v"},`, n/34) + "1]")
		},
	} {
		const small, grow, limit = 20 << 10, 10, 40
		less, more := make(small), make(small*grow)
		if !wire.Valid(more) {
			t.Fatalf("%s is no JSON", name)
		}
		short, long := time.Hour, time.Hour
		for try := range 20 { // the first ones are slow, quadratic time makes all of them so
			for _, m := range []struct {
				in   []byte
				best *time.Duration
			}{{less, &short}, {more, &long}} {
				*m.best = min(*m.best, peertest.ProcessorTime(func() { Members(m.in) }))
			}
			if try > 0 && long <= limit*short {
				break
			}
		}
		if long > limit*max(short, 20*time.Microsecond) {
			t.Errorf("%s: %v for %d bytes, and %v for %d bytes", name, short, len(less), long, len(more))
		}
	}
}
