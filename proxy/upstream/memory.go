package upstream

import "time"

// A message on the one stream of a session waits for memory for pipeWait at most,
// because all later messages wait behind it. An answer with a response of its own waits
// as long as the server may be silent, and for maxWait at most.
const (
	pipeWait = 30 * time.Second
	maxWait  = 5 * time.Minute
)

// patience returns how long an exchange waits for memory.
func (k kind) patience(silence time.Duration) time.Duration {
	switch {
	case k.standing():
		return pipeWait
	case silence > 0:
		return min(maxWait, silence)
	}
	return maxWait
}
