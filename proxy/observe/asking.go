package observe

// Asking is a call that waits for an answer of its client.
type Asking struct {
	N                    uint64 // of the call
	Client, Server, Tool string
}

// Asking returns the calls that wait for their clients, the oldest first.
func (r *Ring) Asking() (list []Asking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.age {
		if at.asked > 0 {
			list = append(list, Asking{at.n, r.redact.Text(at.peers.Client), r.redact.Text(at.peers.Server), r.redact.Text(at.contents().call.Tool)})
		}
	}
	return list
}
