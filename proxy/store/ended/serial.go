package ended

// Serial is the place of a session among those that a process has begun.
type Serial struct {
	Process uint64 // random
	Number  uint64 // in the order in which they began
}
