package fleet

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// listening is the transport of a client. It knows whether the client's standing stream is open. A GET that a balancer
// cannot serve, because a replica has died, is repeated: the published client would never listen again. It also knows how a
// DELETE was answered, which the published client ignores.
type listening struct {
	next http.RoundTripper

	mu      sync.Mutex
	last    int
	opens   int    // the number of the stream that is open; 0 for none
	refusal string // the status and the body of a DELETE that was refused
}

const (
	getAgain = 100 * time.Millisecond
	getTries = 50
)

// number returns the number of the stream that is open, or 0.
func (l *listening) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opens
}

// RoundTrip implements [http.RoundTripper].
func (l *listening) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
		return l.roundTripDelete(r)
	default:
		return l.next.RoundTrip(r)
	}
	for try := 0; ; try++ {
		resp, err := l.next.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusOK {
			resp.Body = l.begin(resp.Body)
		}
		if err != nil || resp.StatusCode < http.StatusInternalServerError || try == getTries {
			return resp, err
		}
		resp.Body.Close()
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(getAgain):
		}
	}
}

func (l *listening) roundTripDelete(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil || resp.StatusCode < http.StatusMultipleChoices {
		return resp, err
	}
	text, err := readAll(resp.Body)
	resp.Body.Close()
	resp.Body = http.NoBody
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = fmt.Sprintf("%s %.300s", resp.Status, text)
	return resp, err
}

// refused says how a DELETE was refused; "" if none was.
func (l *listening) refused() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

func (l *listening) begin(body io.ReadCloser) io.ReadCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.opens = l.last
	return &heardBody{ReadCloser: body, of: l, number: l.last}
}

func (l *listening) end(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opens == number {
		l.opens = 0
	}
}

// heardBody is the body of a standing stream.
type heardBody struct {
	io.ReadCloser
	of     *listening
	number int
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.of.end(b.number)
	}
	return n, err
}

func (b *heardBody) Close() error {
	b.of.end(b.number)
	return b.ReadCloser.Close()
}
