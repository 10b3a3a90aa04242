package observe

// Play hands all that the ring has of call n to a reader, in its order. It returns false if the ring does not have the call.
func (r *Ring) Play(n uint64, to Reader) bool {
	r.mu.Lock()
	at := r.rows[n]
	if at == nil {
		r.mu.Unlock()
		return false
	}
	_, messages, notes, end := at.owned()
	r.mu.Unlock()
	for _, m := range messages {
		for len(notes) > 0 && notes[0].At.Before(m.At) {
			to.Note(notes[0])
			notes = notes[1:]
		}
		to.Message(m)
	}
	for _, n := range notes {
		to.Note(n)
	}
	if end != nil {
		to.End(end)
	}
	return true
}
