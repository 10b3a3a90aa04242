package httpcall

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestBudgets(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		headers http.Header
		want    []Budget
	}{
		"none":          {nil, nil},
		"GitHub":        {http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"56"}, "X-Ratelimit-Reset": {"1767323105"}}, []Budget{{56, 60, 0, in(60)}}},
		"delta":         {http.Header{"Ratelimit-Limit": {"60"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"7"}}, []Budget{{0, 60, 0, in(7)}}},
		"no reset":      {http.Header{"Ratelimit-Remaining": {"3"}}, []Budget{{Remaining: 3}}},
		"IETF":          {http.Header{"Ratelimit": {`"default";r=50;t=30`}}, []Budget{{50, 0, 0, in(30)}}},
		"with a policy": {http.Header{"Ratelimit": {`"a";r=50;t=30`}, "Ratelimit-Policy": {`"b";q=1;w=1,"a";q=100;w=60;pk=:cHI=:`}}, []Budget{{50, 100, time.Minute, in(30)}}},
		"several":       {http.Header{"Ratelimit": {`"a";r=50;t=30, "b;,=";r=0`, `"c";r=1`}}, []Budget{{50, 0, 0, in(30)}, {}, {Remaining: 1}}},
		"dictionary":    {http.Header{"Ratelimit": {"limit=100, remaining=50, reset=5"}}, []Budget{{50, 100, 0, in(5)}}},
		"IETF first":    {http.Header{"Ratelimit": {`"default";r=1`}, "X-Ratelimit-Remaining": {"9"}}, []Budget{{Remaining: 1}}},
		"else the next": {http.Header{"Ratelimit": {`nonsense`}, "X-Ratelimit-Remaining": {"9"}}, []Budget{{Remaining: 9}}},
		"negative":      {http.Header{"Ratelimit": {`"a";r=-1`, `remaining=-1`}, "X-Ratelimit-Remaining": {"-1"}}, nil},
		"huge":          {http.Header{"Ratelimit": {`"a";r=9223372036854775807;t=9223372036854775807`}}, []Budget{{1<<63 - 1, 0, 0, now.Add(366 * 24 * time.Hour)}}},
	} {
		if got := Budgets(c.headers, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := Budgets(http.Header{"Ratelimit": slices.Repeat([]string{`"a";r=1`}, 100)}, now); len(got) != maxBudgets {
		t.Error(len(got))
	}
}

func FuzzBudgets(f *testing.F) {
	for _, seed := range []string{`"default";r=50;t=30`, "limit=100, remaining=50, reset=5", `";,`, `a;r=;r=1;=;t`, `"\"";r=1`, "", ";", "\x00;r=0"} {
		f.Add(seed, seed, seed)
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, limit, policy, number string) {
		h := http.Header{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Remaining": {number}, "X-Ratelimit-Reset": {number}, "X-Ratelimit-Limit": {number}}
		for _, b := range Budgets(h, now) {
			if b.Remaining < 0 || b.Limit < 0 || b.Window < 0 || !b.Reset.IsZero() && b.Reset.Sub(now) > 367*24*time.Hour {
				t.Errorf("%+v", b)
			}
		}
	})
}
