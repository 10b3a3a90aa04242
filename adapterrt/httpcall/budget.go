package httpcall

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Budget is what an API says about one of its rate limits.
type Budget struct {
	Remaining int64
	Limit     int64         // calls per window, 0 if it is unknown
	Window    time.Duration // 0 if it is unknown
	Reset     time.Time     // zero if it is unknown
}

// maxBudgets is the largest number of rate limits of an answer that are read.
const maxBudgets = 8

// Budgets reads the rate limits in an answer's headers: RateLimit and RateLimit-Policy of
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers, the forms of its
// earlier drafts, and GitHub's X-RateLimit-… headers
// (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
func Budgets(h http.Header, now time.Time) []Budget {
	if lines := h.Values("RateLimit"); len(lines) > 0 {
		if all := structured(lines, h.Values("RateLimit-Policy"), now); len(all) > 0 {
			return all
		}
	}
	for _, prefix := range [...]string{"RateLimit-", "X-RateLimit-"} {
		left, ok := HeaderNumber(h, prefix+"Remaining")
		if !ok {
			continue
		}
		b := Budget{Remaining: left}
		b.Limit, _ = HeaderNumber(h, prefix+"Limit")
		if n, ok := HeaderNumber(h, prefix+"Reset"); ok {
			b.Reset = ResetTime(n, now)
		}
		return []Budget{b}
	}
	return nil
}

// structured reads `"name";r=50;t=30`, or `limit=100, remaining=50, reset=30` of earlier drafts.
func structured(lines, policies []string, now time.Time) (all []Budget) {
	rules := map[string]map[string]int64{}
	for _, item := range split(strings.Join(policies, ","), ',') {
		name, params := parameters(item)
		rules[name] = params
	}
	old := map[string]int64{}
	for _, item := range split(strings.Join(lines, ","), ',') {
		name, p := parameters(item)
		left, ok := p["r"]
		if !ok {
			if key, v, found := strings.Cut(name, "="); found {
				if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil && n >= 0 {
					old[strings.TrimSpace(key)] = n
				}
			}
			continue
		}
		b := Budget{Remaining: left}
		if t, ok := p["t"]; ok {
			b.Reset = ahead(t, now)
		}
		if rule := rules[name]; rule != nil {
			b.Limit = rule["q"]
			b.Window = ahead(rule["w"], now).Sub(now)
		}
		if all = append(all, b); len(all) == maxBudgets {
			return all
		}
	}
	if left, ok := old["remaining"]; ok && len(all) == 0 {
		b := Budget{Remaining: left, Limit: old["limit"]}
		if t, ok := old["reset"]; ok {
			b.Reset = ahead(t, now)
		}
		all = append(all, b)
	}
	return all
}

// ahead returns the time that is s seconds after now, at most a year.
func ahead(s int64, now time.Time) time.Time {
	return now.Add(time.Duration(min(s, 366*24*3600)) * time.Second)
}

// parameters splits `"name";q=100;w=60` into the name and the integers.
func parameters(item string) (name string, params map[string]int64) {
	params = map[string]int64{}
	for i, part := range split(item, ';') {
		if part = strings.TrimSpace(part); i == 0 {
			name = strings.Trim(part, `"`)
			continue
		}
		key, v, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
			params[key] = n
		}
	}
	return name, params
}

// split is strings.Split at separators that are not within quotes.
func split(s string, at byte) (parts []string) {
	quoted, from := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"' && (i == 0 || s[i-1] != '\\'):
			quoted = !quoted
		case s[i] == at && !quoted:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// HeaderNumber returns the number in a header. It returns false if the header is missing or is
// not an integer of at least 0.
func HeaderNumber(h http.Header, name string) (int64, bool) {
	if name == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(h.Get(name)), 10, 64)
	return n, err == nil && n >= 0
}

// ResetTime returns the time that a reset header names with the number n: Unix time in seconds
// or milliseconds, or the number of seconds from now. It returns at most 366 days from now.
func ResetTime(n int64, now time.Time) time.Time {
	const longest = 366 * 24 * time.Hour
	switch {
	case n < 1<<28:
		return now.Add(min(time.Duration(n)*time.Second, longest))
	case n < 1<<37: // as seconds the year 6325, as milliseconds a day in 1974
		return now.Add(min(time.Unix(n, 0).Sub(now), longest))
	}
	return now.Add(min(time.UnixMilli(min(n, 1<<47)).Sub(now), longest))
}
