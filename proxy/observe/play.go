package observe

// Play hands all that the ring has of call n to a reader, in its order. It returns false if the ring does not have the call.
func (r *Ring) Play(n uint64, to Reader) bool {
	has, ok := r.owned(n)
	notes := has.notes
	for _, m := range has.messages {
		for len(notes) > 0 && notes[0].At.Before(m.At) {
			to.Note(notes[0])
			notes = notes[1:]
		}
		to.Message(m)
	}
	for _, n := range notes {
		to.Note(n)
	}
	if has.end != nil {
		to.End(has.end)
	}
	return ok
}
