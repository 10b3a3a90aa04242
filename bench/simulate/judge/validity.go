package judge

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// received are the events by which peers write down a message that dragoman gave them; sent those of a message that they gave to it.
var (
	received = map[trace.Kind]bool{
		trace.Answered: true, trace.Progressed: true, trace.Logged: true, trace.Asked: true, trace.Revoked: true, trace.Updated: true,
		trace.Changed: true, trace.Pinged: true, trace.Began: true, trace.Opened: true,
		trace.Received: true, trace.Told: true, trace.Stopped: true, trace.Initialized: true, trace.Ponged: true,
	}
	sent = map[trace.Kind]bool{
		trace.Calls: true, trace.Requests: true, trace.Replies: true, trace.Cancels: true, trace.Subscribes: true, trace.Unsubscribe: true,
		trace.Answers: true, trace.Progresses: true, trace.Logs: true, trace.Asks: true, trace.Withdraws: true, trace.Pings: true,
		trace.Updates: true, trace.Changes: true,
	}
)

// validity: each message that dragoman gave a peer is valid by the schema of the peer's revision, if what it was made from was valid by
// that of its sender's.
func validity(s *script.Script, all []trace.Event) []Violation {
	const law = "validity"
	rev := revisionsOf(s)
	asked := map[string]string{} // the methods of requests, by the peer that waits for the answer, and their ids
	byMark := map[string]string{}
	var found []Violation
	for i := range all {
		e := &all[i]
		rev.read(e)
		switch {
		case len(e.Raw) == 0:
		case sent[e.Kind]:
			if m := methodOf(e.Raw); m != "" {
				asked[e.Who+" "+e.Session+" "+e.ID] = m
				if e.Kind == trace.Calls {
					byMark[e.Mark] = m
				}
			}
		case received[e.Kind]:
			method := e.Method
			if e.Kind == trace.Answered && byMark[e.Mark] != "" {
				method = byMark[e.Mark]
			} else if m := asked[e.Who+" "+e.Session+" "+e.ID]; m != "" {
				method = m
			}
			of := rev.of(e)
			err := fits(of, method, e.Raw)
			if err == nil || madeFromInvalid(s, all[:i], e) {
				continue
			}
			found = append(found, Violation{law, e.At, fmt.Sprintf("%s, %s %s %s of %s: %v: %.600s", e.Who, e.Kind, e.Mark, method, of, err, e.Raw)})
		}
	}
	return found
}

// madeFromInvalid reports whether the message of e may come from one before it that its sender's revision does not allow: one of the same
// mark and, without a mark, of the same method.
func madeFromInvalid(s *script.Script, before []trace.Event, e *trace.Event) bool {
	rev := revisionsOf(s)
	_, toClient := rev.client[e.Who]
	asked := map[string]string{}
	for i := range before {
		f := &before[i]
		rev.read(f)
		_, byClient := rev.client[f.Who]
		if len(f.Raw) == 0 {
			continue
		}
		if f.Kind == trace.Received || f.Kind == trace.Asked {
			asked[f.Who+" "+f.Session+" "+f.ID] = methodOf(f.Raw)
		}
		if !sent[f.Kind] || byClient == toClient || f.Mark != e.Mark || e.Mark == "" && f.Method != e.Method {
			continue
		}
		method := f.Method
		if m := asked[f.Who+" "+f.Session+" "+f.ID]; m != "" {
			method = m
		}
		if fits(rev.of(f), method, withoutNull(f.Raw)) != nil {
			return true
		}
	}
	return false
}

// withoutNull is raw without a null error beside a result: dragoman takes it out, so it is no excuse.
func withoutNull(raw []byte) []byte {
	return bytes.Replace(raw, []byte(`"error":null,`), nil, 1)
}

func methodOf(raw []byte) string {
	var m struct{ Method string }
	_ = json.Unmarshal(raw, &m)
	return m.Method
}
