package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/network"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// direct plays steps, one a line, with a client directly at the server, and returns what happened.
func direct(t *testing.T, transport, client, server, steps string) []trace.Event {
	t.Helper()
	var all []trace.Event
	synctest.Test(t, func(t *testing.T) {
		tr, n := trace.New(), network.New(false)
		s := NewServer(ServerOptions{Transport: transport, Revision: server, Trace: tr, Listen: func() (net.Listener, error) { return n.Listen("server", 9000) }})
		client, lacks, _ := strings.Cut(client, " lacks=")
		o := ClientOptions{Name: "c1", Transport: transport, Revision: client, Lacks: script.Client{Lacks: lacks}.Without, Open: s.Open, Trace: tr, Dial: n.Dial("c1"), Address: func() string { return "127.0.0.1:9000" }}
		if transport == "stdio" {
			in, toServer := n.Pipe("server", "c1")
			fromServer, out := n.Pipe("c1", "server")
			o.In, o.Out = fromServer, toServer
			_, log := n.Pipe("c1", "server")
			s.Process("p1", in, out, log)
		} else if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		c := NewClient(o)
		for line := range strings.Lines(steps) {
			step, err := script.ParseStep(line)
			if err != nil {
				continue
			}
			tr.Add(trace.Event{Kind: trace.Step, Text: step.String()})
			switch step.Who {
			case "":
				d, _ := time.ParseDuration(step.Word(0))
				time.Sleep(d)
			case "link":
				d, _ := time.ParseDuration(step.Word(0))
				switch step.Verb {
				case "cut":
					n.Cut("c1", "server", step.Number("after"))
				case "half":
					n.Half("server", "c1")
				case "stall":
					n.Stall("c1", "server", d)
				case "trickle":
					n.Trickle("c1", "server", d)
				case "refuse":
					n.Refuse("server", d)
				}
			case "server":
				s.Do(step)
			default:
				c.Do(step)
			}
			synctest.Wait()
		}
		if c.Busy() && !strings.Contains(steps, "never") && (transport == "http" || !strings.Contains(steps, "closes")) {
			tr.Add(trace.Event{Who: "c1", Kind: trace.Note, Text: "busy at the end"})
		}
		c.Close()
		s.Close()
		n.Close()
		all = tr.All()
	})
	return all
}

// right reports what is wrong with what happened, of what holds for each trace. Some may find things strange.
func right(all []trace.Event, mayWonder ...string) (wrong []string) {
	open := map[string]string{}
	lost := false // an answer to a question, without which a call does not end
	key := func(e trace.Event) string {
		if e.Mark != "" {
			return e.Mark
		}
		return e.Method + " " + e.ID
	}
	for _, e := range all {
		switch e.Kind {
		case trace.Strange:
			who, _, _ := strings.Cut(e.Who, ".")
			if slices.Contains(mayWonder, who) || strings.HasPrefix(e.Text, "garbage was taken") { // by the server, which is no dragoman
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s\n   %.300s", e, e.Raw))
		case trace.Note:
			if lost = lost || e.Text == "not accepted"; e.Text == "busy at the end" && !lost {
				wrong = append(wrong, e.Text)
			}
		case trace.Calls, trace.Requests, trace.Begins, trace.Subscribes, trace.Unsubscribe:
			if e.Method != "subscriptions/listen" {
				open[key(e)] = "open " + e.Session
			}
		case trace.Cancels, trace.Unheard:
			open[key(e)] = "quiet"
		case trace.Leaves, trace.Ends:
			for k, of := range open {
				if e.Kind == trace.Leaves || of == "open "+e.Session {
					open[k] = "quiet"
				}
			}
		case trace.Answered, trace.Refused, trace.Began:
			if open[key(e)] == "" || e.Kind == trace.Refused && open[key(e)] == "quiet" {
				wrong = append(wrong, "ends what is not open: "+e.String())
			}
			delete(open, key(e))
		}
	}
	for k, how := range open {
		if how != "quiet" {
			wrong = append(wrong, "never ends: "+k)
		}
	}
	return wrong
}

// seen returns what the client did and saw, an event a line, without sessions, connections and ids.
func seen(all []trace.Event) string {
	var b strings.Builder
	for _, e := range all {
		if e.Who != "c1" {
			continue
		}
		fmt.Fprintf(&b, "%v %s", e.At.Truncate(time.Millisecond), e.Kind)
		for _, word := range []string{e.Mark, strings.TrimPrefix(e.Method, "notifications/"), e.Text, e.Failed} {
			if word != "" {
				b.WriteString(" " + word)
			}
		}
		if e.N != 0 {
			fmt.Fprintf(&b, " #%d", e.N)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// byInstant sorts the lines of what was seen: what happens in an instant has no order.
func byInstant(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const everyday = `
c1 begin
c1 list tools
c1 list resources
c1 list prompts
c1 list templates
c1 call 1
c1 call 2 progress=3 logs=2 gap=100ms how=sse
c1 call 3 wait=1s size=20000
c1 read 4 progress=1 wait=10ms
wait 2s
c1 note note://3
c1 prompt
c1 ping
c1 raw no/such
c1 level debug
c1 subscribe note://3
wait 1s
server update note://3
server update note://4
server changed tools
server log 1
server ping
wait 1s
c1 call 5 ask=elicit,sample,roots late=2s
c1 call 6 ask=elicit,sample,roots together=1 reply=decline
c1 call 7 ask=elicit reply=error
c1 call 8 ask=sample reply=twice
c1 call 9 how=error
wait 8s
c1 call 10 wait=1m
wait 1s
c1 cancel 10
c1 call 13 wait=30s cancel=3s
c1 roots
wait 40s
c1 unsubscribe note://3
c1 call 17
`

// misuse is what clients should not do.
const misuse = `
c1 call 1 how=error
c1 call 2 wait=1m
c1 same 3 2
c1 again 4 1
c1 cancel 2
c1 again 5 2 wait=1s
wait 5s
c1 garbage json
c1 garbage utf8
c1 garbage depth
c1 garbage unknown
c1 garbage huge
c1 garbage http
wait 2m
c1 call 6
`

func TestClientAtTheServer(t *testing.T) {
	for _, c := range []struct{ transport, client, server string }{
		{"http", "2024-11-05", "2024-11-05"}, {"http", "2025-03-26", "2025-03-26"}, {"http", "2025-06-18", "2025-06-18"},
		{"http", "2025-11-25", "2025-11-25"}, {"http", "2026-07-28", "2026-07-28"}, {"http", "2025-11-25", "both"}, {"http", "2026-07-28", "both"},
		{"sse", "2024-11-05", "2024-11-05"}, {"sse", "2025-11-25", "2025-11-25"},
		{"stdio", "2024-11-05", "2024-11-05"}, {"stdio", "2025-03-26", "2025-03-26"}, {"stdio", "2025-11-25", "2025-11-25"}, {"stdio", "2026-07-28", "2026-07-28"},
	} {
		t.Run(c.transport+" "+c.client+" "+c.server, func(t *testing.T) {
			all := direct(t, c.transport, c.client, c.server, everyday)
			for _, what := range right(all) {
				t.Error(what)
			}
			all = append(all, direct(t, c.transport, c.client, c.server, misuse)...)
			for _, what := range right(all, "server") {
				t.Error(what)
			}
			if os.Getenv("PLAYED") != "" || t.Failed() {
				var b bytes.Buffer
				_ = trace.Write(&b, all, os.Getenv("PLAYED") == "raw")
				t.Log("\n" + b.String())
			}
		})
	}
}

func TestClientInTrouble(t *testing.T) {
	for _, c := range []struct{ name, transport, revision, steps, want string }{
		{"the streams are cut, and it comes back to what it has missed", "http", "2025-11-25", `
c1 call 1 progress=5 gap=1s how=sse
wait 2500ms
link cut
wait 10s
c1 call 2
`, `
0s begins initialize 2025-11-25 #1
0s began initialize 2025-11-25 #1
0s calls c1.1 tools/call progress=5 gap=1s how=sse
0s opened
0s progressed c1.1 progress #1
1s progressed c1.1 progress #2
2s progressed c1.1 progress #3
2.5s closed ended: read: connection reset by peer
3.5s resumes c1.1 tools/call
3.5s progressed c1.1 progress #4
3.5s opened
4s progressed c1.1 progress #5
5s answered c1.1 tools/call c1.1 done 1
12.5s calls c1.2 tools/call
12.5s answered c1.2 tools/call c1.2 done 1
12.5s leaves
`},
		{"it leaves and comes back", "http", "2025-11-25", `
c1 call 1 progress=5 gap=1s how=sse
wait 2500ms
c1 leave
wait 10s
c1 back
wait 2s
c1 call 2
`, `
0s begins initialize 2025-11-25 #1
0s began initialize 2025-11-25 #1
0s opened
0s calls c1.1 tools/call progress=5 gap=1s how=sse
0s progressed c1.1 progress #1
1s progressed c1.1 progress #2
2s progressed c1.1 progress #3
2.5s leaves
12.5s resumes c1.1 tools/call
12.5s progressed c1.1 progress #4
12.5s progressed c1.1 progress #5
12.5s answered c1.1 tools/call c1.1 done 1
12.5s opened
14.5s calls c1.2 tools/call
14.5s answered c1.2 tools/call c1.2 done 1
14.5s leaves
`},
		{"it leaves and comes back without", "http", "2025-11-25", `
c1 call 1 progress=5 gap=1s how=sse
wait 2500ms
c1 leave
wait 10s
c1 back none
wait 2s
c1 call 2
`, `
0s begins initialize 2025-11-25 #1
0s began initialize 2025-11-25 #1
0s opened
0s calls c1.1 tools/call progress=5 gap=1s how=sse
0s progressed c1.1 progress #1
1s progressed c1.1 progress #2
2s progressed c1.1 progress #3
2.5s leaves
12.5s opened
14.5s calls c1.2 tools/call
14.5s answered c1.2 tools/call c1.2 done 1
14.5s leaves
`},
		{"it hangs up on a call", "http", "2025-06-18", `
c1 call 1 progress=5 gap=1s how=sse
wait 2500ms
c1 hang 1
wait 10s
c1 back
c1 call 2
wait 1s
c1 leave
c1 call 3 ask=sample
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call progress=5 gap=1s how=sse
0s progressed c1.1 progress #1
1s progressed c1.1 progress #2
2s progressed c1.1 progress #3
2.5s unheard c1.1 tools/call
12.5s resumes c1.1 tools/call
12.5s progressed c1.1 progress #4
12.5s progressed c1.1 progress #5
12.5s answered c1.1 tools/call c1.1 done 1
12.5s calls c1.2 tools/call
12.5s answered c1.2 tools/call c1.2 done 1
13.5s leaves
13.5s calls c1.3 tools/call ask=sample
13.5s asked c1.3 sampling/createMessage #1
13.5s replies c1.3 sampling/createMessage c1.3 answer 1 #1
13.5s answered c1.3 tools/call c1.3 done 1
13.5s leaves
`},
		{"the server restarts", "http", "2025-06-18", `
c1 call 1 wait=5s
wait 2500ms
server restart
wait 10s
c1 call 2
wait 1s
c1 call 3
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call wait=5s
2.5s closed ended: unexpected EOF
2.5s refused c1.1 tools/call ended: EOF
3.5s closed status 404: {"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}
12.5s begins initialize 2025-06-18 #2
12.5s began initialize 2025-06-18 #2
12.5s opened
12.5s calls c1.2 tools/call
12.5s answered c1.2 tools/call c1.2 done 1
13.5s calls c1.3 tools/call
13.5s answered c1.3 tools/call c1.3 done 1
13.5s leaves
`},
		{"the server is away", "http", "2025-06-18", `
c1 call 1
server die
wait 5s
c1 call 2
wait 5s
server up
wait 40s
c1 call 3
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call
0s answered c1.1 tools/call c1.1 done 1
0s closed ended: unexpected EOF
1s closed dial: connect: connection refused
3s closed dial: connect: connection refused
5s calls c1.2 tools/call
5s refused c1.2 tools/call dial: connect: connection refused
7s closed dial: connect: connection refused
15s closed status 404: {"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}
50s begins initialize 2025-06-18 #2
50s began initialize 2025-06-18 #2
50s opened
50s calls c1.3 tools/call
50s answered c1.3 tools/call c1.3 done 1
50s leaves
`},
		{"the server loses sessions", "http", "2025-06-18", `
c1 call 1 wait=10s
server lose
c1 call 2
wait 1s
c1 call 3
wait 20s
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call wait=10s
0s refused c1.1 tools/call ended: the stream was closed
0s closed ended: the stream was closed
0s calls c1.2 tools/call
0s refused c1.2 tools/call status 404: {"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}
1s begins initialize 2025-06-18 #2
1s began initialize 2025-06-18 #2
1s calls c1.3 tools/call
1s opened
1s answered c1.3 tools/call c1.3 done 1
21s leaves
`},
		{"it deletes its session and forgets one", "http", "2025-06-18", `
c1 call 1 wait=10s
c1 delete
wait 1s
c1 call 2
c1 forget
c1 call 3
wait 20s
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call wait=10s
0s ends
1s begins initialize 2025-06-18 #2
1s began initialize 2025-06-18 #2
1s opened
1s calls c1.2 tools/call
1s answered c1.2 tools/call c1.2 done 1
1s leaves
1s begins initialize 2025-06-18 #3
1s began initialize 2025-06-18 #3
1s opened
1s calls c1.3 tools/call
1s answered c1.3 tools/call c1.3 done 1
21s leaves
`},
		{"it is deaf", "http", "2025-06-18", `
c1 begin
c1 deaf 30s
c1 call 1
server ping
wait 20s
c1 call 2
wait 20s
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call
20s calls c1.2 tools/call
30s pinged ping
30s answered c1.2 tools/call c1.2 done 1
30s answered c1.1 tools/call c1.1 done 1
40s leaves
`},
		{"bad answers", "http", "2025-06-18", `
c1 call 1 how=closes
c1 call 2 how=cut
c1 call 3 how=cut size=2000
c1 call 4 how=status
c1 call 5 how=busy
c1 call 6 how=null
c1 call 7 how=twice
c1 call 8 how=garbage
c1 call 9 how=other
c1 call 10 how=sse
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s calls c1.1 tools/call how=closes
0s refused c1.1 tools/call ended: the stream was closed
0s calls c1.2 tools/call how=cut
0s refused c1.2 tools/call ended: unexpected EOF
0s calls c1.3 tools/call how=cut size=2000
0s refused c1.3 tools/call ended: unexpected EOF
0s calls c1.4 tools/call how=status
0s refused c1.4 tools/call status 500: this is 500
0s calls c1.5 tools/call how=busy
0s refused c1.5 tools/call status 429: this is 429
0s calls c1.6 tools/call how=null
0s strange an answer with both result and error, or neither
0s answered c1.6 tools/call c1.6 done 1
0s calls c1.7 tools/call how=twice
0s answered c1.7 tools/call c1.7 done 1
0s strange a second answer to the request of id 8
0s calls c1.8 tools/call how=garbage
0s strange a broken frame: invalid character 'h' in literal true (expecting 'r')
0s answered c1.8 tools/call c1.8 done 1
0s calls c1.9 tools/call how=other
0s strange an answer to the id "never-given", which no request had
0s answered c1.9 tools/call c1.9 done 1
0s calls c1.10 tools/call how=sse
0s answered c1.10 tools/call c1.10 done 1
0s leaves
`},
		{"standing streams end", "http", "2025-06-18", `
c1 begin
server closestreams
wait 3s
server ping
server status 503 10s
c1 call 1
wait 10s
c1 call 2
`, `
0s begins initialize 2025-06-18 #1
0s began initialize 2025-06-18 #1
0s opened
0s closed ended: the stream was closed
1s opened
3s pinged ping
3s calls c1.1 tools/call
3s refused c1.1 tools/call status 503: this is 503
13s calls c1.2 tools/call
13s answered c1.2 tools/call c1.2 done 1
13s leaves
`},
		{"sse", "sse", "2024-11-05", `
c1 call 1
server die
wait 5s
c1 call 2
server up
c1 call 3
c1 call 4 wait=1s
c1 leave
c1 call 5 wait=10s
link cut
wait 1s
c1 call 6
c1 delete
c1 call 7
`, `
0s begins initialize 2024-11-05 #1
0s opened
0s began initialize 2024-11-05 #1
0s calls c1.1 tools/call
0s answered c1.1 tools/call c1.1 done 1
0s closed ended: unexpected EOF
5s begins initialize 2024-11-05 #2
5s refused initialize dial: connect: connection refused
5s note there is no session for: c1 call 2
5s begins initialize 2024-11-05 #3
5s opened
5s began initialize 2024-11-05 #3
5s calls c1.3 tools/call
5s answered c1.3 tools/call c1.3 done 1
5s calls c1.4 tools/call wait=1s
5s leaves
5s begins initialize 2024-11-05 #4
5s opened
5s began initialize 2024-11-05 #4
5s calls c1.5 tools/call wait=10s
5s closed ended: read: connection reset by peer
5s refused c1.5 tools/call ended: read: connection reset by peer
6s begins initialize 2024-11-05 #5
6s opened
6s began initialize 2024-11-05 #5
6s calls c1.6 tools/call
6s answered c1.6 tools/call c1.6 done 1
6s ends
6s begins initialize 2024-11-05 #6
6s opened
6s began initialize 2024-11-05 #6
6s calls c1.7 tools/call
6s answered c1.7 tools/call c1.7 done 1
6s leaves
`},
		{"pipe", "stdio", "2025-11-25", `
c1 call 1
c1 call 2 wait=10s
server die
wait 1s
c1 call 3
`, `
0s begins initialize 2025-11-25 #1
0s began initialize 2025-11-25 #1
0s opened
0s calls c1.1 tools/call
0s answered c1.1 tools/call c1.1 done 1
0s calls c1.2 tools/call wait=10s
0s closed ended: EOF
0s refused c1.2 tools/call ended: EOF
`},
		{"pipe left", "stdio", "2025-11-25", `
c1 call 1
c1 call 2 wait=10s
c1 leave
wait 1s
c1 call 3
`, `
0s begins initialize 2025-11-25 #1
0s began initialize 2025-11-25 #1
0s opened
0s calls c1.1 tools/call
0s answered c1.1 tools/call c1.1 done 1
0s calls c1.2 tools/call wait=10s
0s leaves
`},
		{"modern", "http", "2026-07-28", `
c1 subscribe note://1
c1 call 1 progress=5 gap=1s how=sse
c1 call 2 ask=elicit reply=never
wait 2s
server restart
wait 3s
server update note://1
server closestreams
wait 4s
server update note://1
c1 call 3 wait=10s
c1 hang 3
c1 leave
c1 call 4
c1 delete
c1 call 5
c1 forget
`, `
0s begins server/discover 2026-07-28 #1
0s began server/discover 2026-07-28 #1
0s subscribes subscriptions/listen note://1
0s opened subscriptions/listen note://1
0s opened subscriptions/listen
0s calls c1.1 tools/call progress=5 gap=1s how=sse
0s progressed c1.1 progress #1
0s calls c1.2 tools/call ask=elicit reply=never
0s asked c1.2 elicitation/create #1
0s unheard c1.2 tools/call its user never answers
1s progressed c1.1 progress #2
2s progressed c1.1 progress #3
2s closed subscriptions/listen ended: unexpected EOF
2s closed subscriptions/listen ended: unexpected EOF
2s refused c1.1 tools/call ended: unexpected EOF
3s opened subscriptions/listen note://1
3s opened subscriptions/listen
5s updated resources/updated note://1 #1
5s closed subscriptions/listen result
5s closed subscriptions/listen result
6s opened subscriptions/listen note://1
6s opened subscriptions/listen
9s updated resources/updated note://1 #2
9s calls c1.3 tools/call wait=10s
9s unheard c1.3 tools/call
9s leaves
9s begins server/discover 2026-07-28 #2
9s began server/discover 2026-07-28 #2
9s calls c1.4 tools/call
9s answered c1.4 tools/call c1.4 done 1
9s opened subscriptions/listen
9s ends
9s begins server/discover 2026-07-28 #3
9s began server/discover 2026-07-28 #3
9s calls c1.5 tools/call
9s answered c1.5 tools/call c1.5 done 1
9s opened subscriptions/listen
9s leaves
`},
		{"modern pipe", "stdio", "2026-07-28", `
c1 subscribe note://1
c1 call 2 ask=elicit reply=never
server closestreams
wait 4s
server update note://1
c1 unsubscribe note://1
server die
c1 call 4
`, `
0s begins server/discover 2026-07-28 #1
0s began server/discover 2026-07-28 #1
0s opened subscriptions/listen
0s subscribes subscriptions/listen note://1
0s opened subscriptions/listen note://1
0s calls c1.2 tools/call ask=elicit reply=never
0s asked c1.2 elicitation/create #1
0s unheard c1.2 tools/call its user never answers
0s closed subscriptions/listen result
0s closed subscriptions/listen result
1s opened subscriptions/listen note://1
1s opened subscriptions/listen
4s updated resources/updated note://1 #1
4s unsubscribes subscriptions/listen note://1
4s closed subscriptions/listen ended: EOF
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := direct(t, c.transport, c.revision, c.revision, c.steps)
			for _, what := range right(all, "server", "c1") {
				t.Error(what)
			}
			if got := seen(all); byInstant(got) != byInstant(c.want) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// TestClientUnderRandomSteps plays steps in any order and with faults of the link, at a server that does nothing wrong.
func TestClientUnderRandomSteps(t *testing.T) {
	steps := strings.Split(strings.TrimSpace(`
c1 list tools;c1 call N;c1 call N wait=3s progress=2 gap=700ms;c1 call N how=sse logs=2 gap=1s;c1 call N ask=elicit,sample,roots late=1s
c1 call N size=30000 how=sse;c1 call N ask=roots,elicit together=1 reply=decline;c1 call N cancel=1s wait=2s;c1 call N how=closes;c1 call N how=cut
c1 read N progress=1;c1 cancel B;c1 hang B;c1 leave;c1 back;c1 back none;c1 forget;c1 delete;c1 deaf 2s;c1 subscribe note://1;c1 unsubscribe note://1
c1 note note://1;c1 ping;c1 begin;c1 call N how=status;c1 call N ask=sample reply=never;c1 call N ask=elicit reply=twice
server ping;server update note://1;server changed tools;server restart;server lose;server closestreams;server slow 500ms;server log 1;server status 503 1s
link cut;link cut after=M;link half;link stall 1s;link trickle 100ms;link refuse 2s;wait 100ms;wait 1s;wait 1s;wait 3s`), "\n")
	steps = strings.Split(strings.Join(steps, ";"), ";")
	worlds := [][2]string{{"http", "2024-11-05"}, {"http", "2025-06-18"}, {"http", "2025-11-25"}, {"http", "2026-07-28"}, {"sse", "2024-11-05"}, {"stdio", "2025-11-25"}, {"stdio", "2026-07-28"}}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		world := worlds[r.IntN(len(worlds))]
		var b strings.Builder
		for n := 1; n <= 40; n++ {
			number := strconv.Itoa(n)
			b.WriteString(strings.NewReplacer("N", number, "B", strconv.Itoa(max(1, n-r.IntN(4))), "M", strconv.Itoa(r.IntN(3000))).Replace(steps[r.IntN(len(steps))]) + "\n")
		}
		b.WriteString("wait 10m\nc1 call 99\nwait 1m\n")
		all := direct(t, world[0], world[1], world[1], b.String())
		for _, what := range right(all, "server") {
			t.Errorf("seed %d, %s: %s", seed, world, what)
		}
		if t.Failed() {
			var b strings.Builder
			_ = trace.Write(&b, all, false)
			t.Fatal("\n" + b.String())
		}
	}
}

// TestClientsBatch: several calls are one POST, whose answers come as an array, in any order.
func TestClientsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, n := trace.New(), network.New(false)
		defer n.Close()
		listener, err := n.Listen("server", 9000)
		if err != nil {
			t.Fatal(err)
		}
		server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			all, batch, _ := readMessages(body)
			var answers []json.RawMessage
			for _, m := range slices.Backward(all) {
				switch {
				case m.Method == "initialize":
					answers = append(answers, writeResult(m.ID, object{"protocolVersion": "2025-03-26", "capabilities": object{}, "serverInfo": object{"name": "s", "version": "1"}}))
				case m.request():
					answers = append(answers, writeResult(m.ID, object{"content": []any{object{"type": "text", "text": m.id()}}}))
				}
			}
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Method == "GET":
				w.WriteHeader(405)
			case batch:
				_, _ = w.Write(encode(answers))
			case len(answers) == 0:
				w.WriteHeader(202)
			default:
				_, _ = w.Write(answers[0])
			}
		})}
		go func() { _ = server.Serve(listener) }()
		c := NewClient(ClientOptions{Name: "c1", Transport: "http", Revision: "2025-03-26", Trace: tr, Dial: n.Dial("c1"), Address: func() string { return "127.0.0.1:9000" }})
		step, _ := script.ParseStep("c1 batch 1 2 3")
		c.Do(step)
		synctest.Wait()
		c.Close()
		server.Close()
		for _, what := range right(tr.All()) {
			t.Error(what)
		}
		const want = `
0s begins initialize 2025-03-26 #1
0s began initialize 2025-03-26 #1
0s closed status 405: 
0s calls c1.1 tools/call
0s calls c1.2 tools/call
0s calls c1.3 tools/call
0s answered c1.3 tools/call 4
0s answered c1.2 tools/call "c1-3"
0s answered c1.1 tools/call 2
0s leaves
`
		if got := seen(tr.All()); byInstant(got) != byInstant(want) {
			t.Errorf("got\n%s", got)
		}
	})
}
