package upstream

import "time"

// What comes on the one stream of a session waits for memory for pipeWait at most: all
// that the server says behind it waits, too. An answer with a response of its own waits
// for as long as the server may be silent, at most for maxWait.
const (
	pipeWait = 30 * time.Second
	maxWait  = 5 * time.Minute
)

// patience is how long an exchange waits for memory.
func (k kind) patience(silence time.Duration) time.Duration {
	switch {
	case k.standing():
		return pipeWait
	case silence > 0:
		return min(maxWait, silence)
	}
	return maxWait
}
