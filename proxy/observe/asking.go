package observe

import "time"

// Asking is a call that waits for an answer of its client.
type Asking struct {
	N                             uint64 // of the call
	Method                        string // of the question; that of the call if the questions are its result
	Session, Client, Server, Tool string
	Since                         time.Time
}

// Asking returns the calls that wait for their clients, the oldest first: also those to which dragoman itself has asked something.
func (r *Ring) Asking() (list []Asking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.age {
		if r.past || at.asked == 0 {
			continue
		}
		has, p := at.contents(), at.peers
		a := Asking{N: at.n, Session: p.Session, Client: r.redact.Text(p.Client), Server: r.redact.Text(p.Server), Tool: r.redact.Text(has.call.Tool)}
		for _, m := range has.messages {
			if m.asks() {
				a.Method, a.Since = r.redact.Text(m.Method), m.At
			}
		}
		list = append(list, a)
	}
	return list
}
