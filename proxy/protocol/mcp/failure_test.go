package mcp

import (
	"errors"
	"testing"
)

func TestEveryCauseHasACodeAndAText(t *testing.T) {
	for c := range Cause(len(causes)) {
		at := causes[c]
		if at.Text == "" || at.Status < 200 || at.Code < -32799 || at.Code > -32600 && c < MetaInvalid {
			t.Errorf("cause %d: %+v", c, at)
		}
		if at.Status == 404 && c != SessionUnknown && c < MetaInvalid {
			t.Errorf("cause %d: 404 means that the session is gone", c)
		}
		if at.Code <= -32020 && at.Code >= -32099 && (c < MetaInvalid || at.Code < -32022) {
			t.Errorf("cause %d: code %d is not ours to use", c, at.Code)
		}
	}
	if TooManyParked != Cause(len(causes)-1) {
		t.Error("the table and the list of causes differ in length")
	}
}

func TestFailureKeepsTheIDItHas(t *testing.T) {
	f := Fail(Malformed, "").About([]byte("1")).About([]byte("2")).About(nil)
	if string(f.ID) != "1" {
		t.Errorf("%s", f.ID)
	}
}

func TestErrorTextIsQuoted(t *testing.T) {
	got := string(AppendError(nil, []byte(`"a"`), -32603, "a->\"b\"\n\xff", []byte("[1]")))
	if want := `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"a->\"b\"\n�","data":[1]}}`; got != want {
		t.Errorf("got %s", got)
	}
}

// TestErrorSaysEachReasonOnce: some texts for clients contain the underlying error already.
func TestErrorSaysEachReasonOnce(t *testing.T) {
	for want, f := range map[string]*Failure{
		"ended":                 {Text: "ended"},
		"ended: 400 Bad":        {Text: "ended: 400 Bad", Err: errors.New("400 Bad")},
		"ended: reset":          {Text: "ended", Err: errors.New("reset")},
		"ended: reset: by peer": {Text: "ended: reset", Err: errors.New("by peer")},
	} {
		if got := f.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
