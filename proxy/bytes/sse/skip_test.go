package sse

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLargeEventIsSkipped checks also that the id in it is known.
func TestLargeEventIsSkipped(t *testing.T) {
	const limit = 100
	long := strings.Repeat("x", 10*limit)
	for _, event := range []string{
		"data: {\"id\":7,\"result\":\"" + long + "\"}\n\n",
		"id: 3\r\nevent: message\r\ndata: {\"result\":\"" + long + "\",\"id\":7}\r\n\r\n",
		"data:{\"result\":\ndata:\"" + long + "\",\ndata:\"id\":7}\rid: 4\r\r",
	} {
		in := "data: before\n\n" + event + "data: behind\n\n"
		for _, r := range []*Reader{NewReader(strings.NewReader(in), limit), NewReader(iotest.OneByteReader(strings.NewReader(in)), limit)} {
			if e, err := r.Next(); err != nil || string(e.Data) != "before" {
				t.Fatalf("%q, %v", e.Data, err)
			}
			_, err := r.Next()
			large, ok := errors.AsType[*TooLargeError](err)
			if !ok || !large.Skipped || string(large.Message.ID()) != "7" {
				t.Fatalf("%.60q: %v", event, err)
			}
			if e, err := r.Next(); err != nil || string(e.Data) != "behind" || e.HasID {
				t.Errorf("%.60q: %q, %v", event, e.Data, err)
			}
		}
	}
}

// TestEndlessEventIsNotSkipped checks that reading such an event ends with an error.
func TestEndlessEventIsNotSkipped(t *testing.T) {
	r := NewReader(unending{}, 100)
	for range 2 {
		_, err := r.Next()
		if large, ok := errors.AsType[*TooLargeError](err); !ok || large.Skipped {
			t.Fatalf("err = %v", err)
		}
	}
}

type unending struct{}

func (unending) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
