// Package load has what clients share that put load on dragoman: how they send a message, and how they count what became of it.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

const maxAnswer = 8 << 20

// Answer is what came for a message.
type Answer struct {
	Status int // 0 if no response came
	Header http.Header
	Last   gjson.Result // the last message, also of an event stream
	Err    error
}

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprint(a.Status, " ", a.Last.Raw)
}

// Text returns the text of the result, unless it is an error.
func (a Answer) Text() (text string, ok bool) {
	got := a.Last.Get("result.content.0.text")
	return got.Str, a.Err == nil && got.Exists() && !a.Last.Get("result.isError").Bool()
}

// Request returns a request with the headers of clients of Streamable HTTP, and those of header that are not empty.
func Request(ctx context.Context, method, url, message string, header map[string]string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for name, value := range header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// Send sends one message and reads its answer.
func Send(client *http.Client, r *http.Request) Answer {
	resp, err := client.Do(r)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	text := string(body)
	if i := strings.LastIndex(text, "data: "); i >= 0 && !strings.HasPrefix(text, "{") {
		text = text[i+len("data: "):]
	}
	return Answer{resp.StatusCode, resp.Header, gjson.Parse(text), err}
}

// maxShown is how many failures of a kind are told.
const maxShown = 4

// Tally counts what became of what clients did, by its name. The zero value is empty.
type Tally struct {
	mu                 sync.Mutex
	good, excused, bad map[string]int
	shown              []string
	began              time.Time
}

func (t *Tally) count(in *map[string]int, what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *in == nil {
		*in = map[string]int{}
	}
	if t.began.IsZero() {
		t.began = time.Now()
	}
	(*in)[what]++
	return (*in)[what]
}

// Good counts what went well.
func (t *Tally) Good(what string) { t.count(&t.good, what) }

// Excuse counts what need not go well.
func (t *Tally) Excuse(what, why string) { t.count(&t.excused, what+", "+why) }

// Fail counts what should have gone well.
func (t *Tally) Fail(what string, err error) {
	if n := t.count(&t.bad, what); n <= maxShown {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.shown = append(t.shown, fmt.Sprintf("%s, after %.2f s: %.400v", what, time.Since(t.began).Seconds(), err))
	}
}

// Done returns how often what begins with this went well.
func (t *Tally) Done(what string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, k := range t.good {
		if strings.HasPrefix(name, what) {
			n += k
		}
	}
	return n
}

// Err returns an error that names what should not have failed; nil if nothing did, and something went well.
func (t *Tally) Err() error {
	var errs []error
	if t.Done("") == 0 {
		errs = append(errs, errors.New("nothing went well"))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(t.bad)) {
		errs = append(errs, fmt.Errorf("%d of %q failed", t.bad[what], what))
	}
	for _, one := range t.shown {
		errs = append(errs, errors.New(one))
	}
	return errors.Join(errs...)
}

// String lists all counts.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	add := func(kind string, of map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(of)) {
			lines = append(lines, fmt.Sprintf("  %8d  %s%s", of[what], what, kind))
		}
	}
	add("", t.good)
	add("", t.excused)
	add(" FAILED", t.bad)
	return strings.Join(lines, "\n")
}
