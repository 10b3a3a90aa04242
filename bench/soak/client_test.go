package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func newVisitor(url string) *visitor {
	return &visitor{counts: &counts{}, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url: url, session: "s", rand: rand.New(rand.NewPCG(1, 1))}
}

func TestGoodCallsAreAnsweredAndOthersAreNot(t *testing.T) {
	s, err := startServer(http.HandlerFunc(serveHTTP))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for m, good := range map[manner]int64{echo: 1, events: 1, lie: 0, cut: 0} {
		v := newVisitor(s.url)
		v.behave(t.Context(), m)
		if v.good.Load() != good || v.failed.Load() != 1-good || v.wrong.Load() != 0 {
			t.Errorf("%s: %s", m, v)
		}
	}
}

func TestAnswerOfAnotherCallIsCountedAsWrong(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, request{id: "1", text: `"s 99"`}.answer())
	}))
	defer s.Close()
	v := newVisitor(s.URL)
	if v.behave(t.Context(), echo); v.wrong.Load() != 1 {
		t.Error(v.String())
	}
	if (&subject{counts: &counts{}}).judge() == nil {
		t.Error("a run without samples passed")
	}
}

func TestPipeServerEndsWithACutAnswer(t *testing.T) {
	v := newVisitor("")
	in := strings.Join([]string{v.call(echo), v.call(events), v.call(hang), v.call(cut), v.call(echo)}, "\n")
	var out strings.Builder
	if err := servePipe(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], `"s 1"`) || lines[1] != note || !strings.Contains(lines[2], `"s 2"`) || len(lines[3]) != 20 {
		t.Errorf("%q", lines)
	}
}
