package owntools

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestCallEndsWithItsReader: a call runs as long as its messages are taken. It is cancelled when its reader takes no more, and
// by Close.
func TestCallEndsWithItsReader(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes int // how many messages the reader takes
		close bool
		want  []string
		cause error // of the end of the call's context
		last  error // what Events gives at last; nil for nothing
	}{
		{"all", 4, false, []string{"one", "two", "answer"}, nil, io.EOF},
		{"the first", 1, false, []string{"one"}, upstream.ErrClosed, nil},
		{"the answer as the last", 3, false, []string{"one", "two", "answer"}, nil, nil},
		{"closed at the first", 4, true, []string{"one"}, upstream.ErrClosed, upstream.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cause error
			r := &Request{run: func(ctx context.Context, q *question) ([]byte, error) {
				for _, m := range []string{"one", "two"} {
					if more := q.yield([]byte(m)); more != (ctx.Err() == nil) {
						t.Errorf("after %q: more is %v, the context has ended with %v", m, more, ctx.Err())
					}
				}
				cause = context.Cause(ctx)
				return []byte("answer"), nil
			}}
			st := r.Start(t.Context(), nil)
			var got []string
			var last error
			for e, err := range st.Events {
				if last = err; err != nil {
					break
				}
				if got = append(got, string(e.Data)); c.close {
					st.Close()
				}
				if len(got) == c.takes {
					break
				}
			}
			if !slices.Equal(got, c.want) || last != c.last || cause != c.cause {
				t.Errorf("%q, at last %v; the call ended with %v", got, last, cause)
			}
		})
	}
}
