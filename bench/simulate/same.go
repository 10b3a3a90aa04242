package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// unequal matches what a trace has otherwise in the next play of a world, though no user cares: random text, names of streams, which are
// counted in the order in which sessions begin, and where a page of a cut text begins, which follows from the random text that it ends with.
var unequal = regexp.MustCompile(`[A-Za-z0-9_-]{20,}|session-\d+\.\d+|(\\n)?(c\d+\.\d+ line |…)\d+.*`)

// sameText is a trace as text that is equal for equal worlds: within an instant the order is not defined, so it is sorted there. Sessions and
// processes are numbered by all that happened in them. Left out is what no user sees and what a goroutine that ran first decides: connections, and
// so the replica behind a balancer, numbers of pings and messages, and what a session is told in the instant in which it ends.
func sameText(all []trace.Event) string {
	type line struct{ text, session string }
	ends := map[string]time.Duration{}
	for _, e := range all {
		if e.Kind == trace.Gone || e.Kind == trace.Died {
			ends[e.Who+" "+e.Session] = e.At
		}
	}
	all = slices.DeleteFunc(all, func(e trace.Event) bool {
		late := e.Kind == trace.Stopped || e.Method == "resources/unsubscribe" && strings.HasPrefix(e.Who, "server")
		at, is := ends[e.Who+" "+e.Session]
		return e.Kind == trace.Accepted || late && (is && e.At == at || e.Failed == "404")
	})
	slices.SortStableFunc(all, func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
	lines, in := make([]line, len(all)), map[string][]string{}
	for i, e := range all {
		session := e.Session
		if process, is := strings.CutPrefix(e.Who, "server."); is {
			session, e.Who = process+" "+session, "server"
		}
		if e.Kind == trace.Pings || e.Kind == trace.Ponged {
			e.N = 0
		}
		e.Session, e.Conn, e.Via, e.ID = "", 0, "", ""
		text := unequal.ReplaceAllString(e.String(), "?")
		lines[i] = line{text, session}
		if session != "" {
			in[session] = append(in[session], text)
		}
	}
	whole := map[string]string{}
	for session, texts := range in {
		slices.Sort(texts)
		whole[session] = strings.Join(texts, "\n")
	}
	numbers := map[string]int{}
	for i, session := range slices.SortedFunc(maps.Keys(whole), func(a, b string) int { return strings.Compare(whole[a], whole[b]) }) {
		numbers[session] = i + 1
	}
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = fmt.Sprintf("%s session=%d\n", l.text, numbers[l.session])
	}
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].At == all[from].At {
			to++
		}
		slices.Sort(texts[from:to])
		from = to
	}
	return strings.Join(texts, "")
}
