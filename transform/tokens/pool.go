//go:build !race

package tokens

import "sync"

// pool keeps values for reuse.
type pool = sync.Pool
