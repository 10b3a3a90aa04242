package replicas

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// listening is the transport of a client. It knows whether the client's standing stream is open. A GET that a balancer
// cannot serve, because a replica has died, is repeated: the published client would never listen again. It also knows how a
// DELETE was answered, which the published client ignores.
type listening struct {
	next    http.RoundTripper
	last    atomic.Int64
	opens   atomic.Int64 // the number of the stream that is open; 0 for none
	refusal atomic.Value // the status and the body of a DELETE that was refused, as a string
}

const (
	getAgain = 100 * time.Millisecond
	getTries = 50
)

// RoundTrip implements [http.RoundTripper].
func (l *listening) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 0; ; try++ {
		resp, err := l.next.RoundTrip(r)
		switch {
		case err != nil:
			return nil, err
		case r.Method == http.MethodDelete && resp.StatusCode >= http.StatusMultipleChoices:
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // only to be told
			resp.Body.Close()
			resp.Body = http.NoBody
			l.refusal.Store(fmt.Sprintf("%s %s", resp.Status, text))
		case r.Method == http.MethodGet && resp.StatusCode == http.StatusOK:
			number := l.last.Add(1)
			l.opens.Store(number)
			resp.Body = &heardBody{resp.Body, func() { l.opens.CompareAndSwap(number, 0) }}
		case r.Method == http.MethodGet && resp.StatusCode >= http.StatusInternalServerError && try < getTries:
			resp.Body.Close()
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(getAgain):
			}
			continue
		}
		return resp, nil
	}
}

// heardBody is the body of a standing stream.
type heardBody struct {
	io.ReadCloser
	end func()
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *heardBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
