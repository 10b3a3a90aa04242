package redisstore

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

// TestScriptsChargeAsMemoryDoes draws charges at drawn times, and compares the answers of both engines.
func TestScriptsChargeAsMemoryDoes(t *testing.T) {
	r := storetest.StartRedis(t)
	theirs := New(Options{Network: "unix", Addresses: []string{r.Socket}})
	defer theirs.Close()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		ours, name := store.NewMemory(store.Bounds{}), key("account").Kind+string(rune('a'+run%26))+time.Now().String()
		now := time.Now()
		// Accounts expire by the true clock. With these two limits none does while the test runs: only one of their windows can end soon.
		limits := []store.Limit{{ID: "long", Window: 400 * 24 * time.Hour, Most: -1}, {ID: "longer", Window: 330 * 24 * time.Hour, Most: -1}}
		for i := range rapid.IntRange(1, 4).Draw(t, "limits") {
			l := store.Limit{ID: string(rune('a' + i))}
			if rapid.Bool().Draw(t, "window") {
				l.Window = time.Duration(rapid.Int64Range(60_000, int64(60*24*time.Hour/time.Millisecond)).Draw(t, "window")) * time.Millisecond
				l.Most = rapid.Int64Range(-1, 10).Draw(t, "most")
			} else {
				l.Rate, l.Burst = rapid.Float64Range(1e-5, 100).Draw(t, "rate"), rapid.Float64Range(0.5, 20).Draw(t, "burst")
				l.Ahead = rapid.Int64Range(0, 2).Draw(t, "ahead")
			}
			limits = append(limits, l)
		}
		for range rapid.IntRange(1, 12).Draw(t, "charges") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e6, int64(2*time.Hour)).Draw(t, "later")))
			c := &store.Charge{N: rapid.Int64Range(-3, 5).Draw(t, "n"), Force: rapid.Bool().Draw(t, "force"), Limits: limits, Now: now}
			want, err := ours.Charge(ctx, name, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := theirs.Charge(ctx, name, c)
			if err != nil {
				t.Fatal(err)
			}
			if got.OK != want.OK {
				t.Fatalf("%+v:\ngot  %+v\nwant %+v", *c, got, want)
			}
			for i := range want.States {
				g, w := got.States[i], want.States[i]
				if math.Abs(g.Left-w.Left) > 1e-6 || g.Used != w.Used || (g.Wait-w.Wait).Abs() > 2*time.Microsecond || g.Told != w.Told || (g.Reset-w.Reset).Abs() > 2*time.Microsecond {
					t.Fatalf("limit %d of %+v:\ngot  %+v\nwant %+v", i, *c, g, w)
				}
				if l := limits[i]; l.Window > 0 && now.Truncate(l.Window).Add(l.Window).Sub(now)-w.Reset > time.Millisecond {
					t.Fatalf("the window of %s that contains %s ends in %s", l.Window, now, w.Reset)
				}
			}
		}
	})
}
