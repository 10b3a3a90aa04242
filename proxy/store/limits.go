package store

import "time"

// MaxLimits bounds the limits of one charge.
const MaxLimits = 64

// Limit is one of the limits that a call is charged to. It is a token bucket with Rate and Burst, or, with a Window, a count that
// begins anew at each multiple of it, as time.Time.Truncate sees them.
type Limit struct {
	ID string // tells the limits of one key apart; letters and digits, which the operator of the engine can read

	Rate  float64 // tokens in a second
	Burst float64 // tokens of a full bucket

	Window time.Duration
	Most   int64 // of one window; a negative number only counts

	Ahead int64 // tokens that others are waiting for: the bucket must have these as well
}

// Charge is what [Store.Charge] asks of the engine.
type Charge struct {
	N      int64
	Force  bool // count without asking whether there is room
	Limits []Limit
	Now    time.Time // for tests; the engine's own clock if it is zero
}

// Charged is the answer to a Charge.
type Charged struct {
	OK     bool    // all limits had room, and were charged; otherwise none was
	States []State // in the order of the limits, after the charge
}

// State is the state of one limit.
type State struct {
	Left  float64       // tokens in the bucket, or what is left of the window
	Used  int64         // in this window
	Wait  time.Duration // 0 if the limit has room; otherwise, when it has
	Told  bool          // the wait is due to a [Correction]
	Reset time.Duration // until the window ends
}

// Wait returns the longest wait of all limits, or 0.
func (c *Charged) Wait() (d time.Duration) {
	for i := range c.States {
		d = max(d, c.States[i].Wait)
	}
	return d
}

// Correction is what somebody else says of a bucket, such as the API that a call went to.
type Correction struct {
	ID     string
	AtMost float64       // how many tokens there are at most
	For    time.Duration // for how long that holds; 0 takes the other tokens out of the bucket
}
