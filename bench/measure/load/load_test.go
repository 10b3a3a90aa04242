package load

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheLastMessageOfAStreamIsTheAnswer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "data: {}\n\ndata: {\"result\":{\"content\":[{\"text\":%q}]}}\n\n", r.Header.Get("Mcp-Name"))
	}))
	defer web.Close()
	r, err := Request(t.Context(), http.MethodPost, web.URL, "{}", map[string]string{"Mcp-Name": "one", "Mcp-Session-Id": ""})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := Send(web.Client(), r).Text(); text != "one" || !ok || r.Header.Values("Mcp-Session-Id") != nil {
		t.Errorf("%q, %v, %v", text, ok, r.Header)
	}
}

func TestTallyFailsIfAnythingDidOrNothingWentWell(t *testing.T) {
	var tally Tally
	if tally.Excuse("call", "away"); tally.Err() == nil {
		t.Error("nothing went well, and that is no error")
	}
	if tally.Good("call of one"); tally.Err() != nil || tally.Done("call of") != 1 {
		t.Error(tally.Err())
	}
	tally.Fail("list", errors.New("no tools"))
	if err := tally.Err(); err == nil || !strings.Contains(err.Error(), "no tools") || !strings.Contains(tally.String(), "list FAILED") {
		t.Errorf("%v\n%s", err, &tally)
	}
}
