package httpcall

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// arrives makes a call whose answer arrives in parts, and returns the progress and the body. The
// call's clock advances a second each time it is read.
func arrives(t *testing.T, how file.Answer, secrets []string, opt Options, parts ...string) (said []string, body string, f *failure.Failure) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, part := range parts {
			if part == "" {
				<-r.Context().Done()
				return
			}
			if i > 0 {
				time.Sleep(5 * time.Millisecond)
			}
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	at := time.Unix(0, 0)
	opt.MaxResponse = 1 << 20
	opt.Now = func() time.Time { at = at.Add(time.Second); return at }
	base, _ := url.Parse(s.URL)
	target := &file.Target{Base: base, BaseURL: s.URL, Origin: file.OriginOf(base), Prefix: s.URL}
	o := &Outgoing{Method: "GET", Timeout: time.Minute, Stream: &how, Secrets: secrets, Progress: func(n int, newest string) { said = append(said, fmt.Sprint(n, " ", newest)) }}
	o.URL.Text = []byte(s.URL + "/x")
	r, f := NewClient(opt).Exchange(context.Background(), target, o)
	if r != nil {
		body = string(r.Body)
	}
	return said, body, f
}

// TestProgressReportsItemsAsTheyArrive shows that progress does not depend on how the network
// splits the answer into parts.
func TestProgressReportsItemsAsTheyArrive(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		how   file.Answer
		parts []string
		want  string
	}{
		{file.Answer{As: file.ReadLines}, []string{"{\"a\"", ":1}\r\n", "\n  \n", "[2]\n", "3"}, `1 {"a":1}|2 [2]`},
		{file.Answer{As: file.ReadLines, Join: [][]string{{"m", "c"}}}, []string{"{\"m\":{\"c\":\"a\\nb\"}}\n", "{\"n\":1}\n", "{\n"}, "1 a b|2 |3 "},
		{file.Answer{As: file.ReadLines}, []string{long, long + "\n", "1\n"}, "1 " + strings.Repeat("x", 200) + "|2 1"},
		{file.Answer{As: file.ReadEvents}, []string{": hi\n\nevent: x\nda", "ta: {\"a\":\ndata: 1}\nid: 4\n\n", "data: [DONE]\n\ndata: cut"}, `1 {"a": 1}`},
		{file.Answer{As: file.ReadLines}, []string{"\"key s3cr3t\"\n"}, `1 "key [redacted]"`},
	} {
		said, body, f := arrives(t, c.how, []string{"s3cr3t"}, Options{}, c.parts...)
		if got := strings.Join(said, "|"); got != c.want || f != nil || body != strings.Join(c.parts, "") {
			t.Errorf("%q:\n got %q\nwant %q (%v)", c.parts, got, c.want, f)
		}
	}
}

// TestProgressIsReportedFourTimesASecond shows that progress is reported at most four times a
// second, and that items in between are counted.
func TestProgressIsReportedFourTimesASecond(t *testing.T) {
	now := time.Unix(0, 0)
	var said []int
	a := &arriving{how: &file.Answer{As: file.ReadLines}, now: func() time.Time { return now }, tell: func(n int, _ string) { said = append(said, n) }}
	for range 100 {
		a.look([]byte("1\n"))
		now = now.Add(10 * time.Millisecond)
	}
	if fmt.Sprint(said) != "[1 26 51 76]" {
		t.Error(said)
	}
}

// TestAStalledResponseEndsBeforeTheTimeout shows that a call whose answer stops ends before the operation's timeout.
func TestAStalledResponseEndsBeforeTheTimeout(t *testing.T) {
	var said []string
	var f *failure.Failure
	for idle := 50 * time.Millisecond; len(said) == 0 && idle < time.Minute; idle *= 2 { // until the first part comes within it
		said, _, f = arrives(t, file.Answer{As: file.ReadEvents}, nil, Options{Idle: idle}, "data: 1\n\n", "")
	}
	if f == nil || f.Code != failure.TransportTimeout || f.Message != "The response stopped: no further data within the time limit" || len(said) != 1 {
		t.Errorf("%v, %v", f, said)
	}
}
