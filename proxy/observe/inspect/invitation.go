package inspect

import (
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/valyala/fasthttp"
)

// invitation is a code that a page gets the token for. The zero value is none.
type invitation struct {
	sum   [sha256.Size]byte
	until time.Time
}

// invitedFor is how long an invitation is good: a browser has to start.
const invitedFor = time.Minute

// Invite returns a code for which a page gets the token, once, and within a minute. So it may be where other users of the machine
// can read it, as in the arguments of a browser, in which the token would stay. An earlier code ends.
func (h *Handler) Invite() string {
	code := rand.Text()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invited = invitation{sha256.Sum256([]byte(code)), time.Now().Add(invitedFor)}
	return code
}

// accepts reports whether the request has the code of an invitation, which ends with that.
func (h *Handler) accepts(c *fasthttp.RequestCtx) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	good := time.Now().Before(h.invited.until) && bears(c, h.invited.sum)
	if good {
		h.invited = invitation{}
	}
	return good
}
