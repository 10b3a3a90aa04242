//go:build !race

package tokens

import "sync"

// pool keeps what is used again and again.
type pool = sync.Pool
