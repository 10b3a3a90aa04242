package envelope

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFinder(t *testing.T) {
	long := strings.Repeat(`{"id":7,"method":"\"}"},`, 1000)
	for _, c := range []struct {
		in, id string
		method bool
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "1", false},
		{`{"jsonrpc":"2.0","result":{"a":[` + long + `0]},"id":"x\"y"}`, `"x\"y"`, false},
		{` { "result" : [1, {"id":2}] , "id" : -3 } `, "-3", false},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":[` + long + `0]}}`, "", true},
		{`{"id":5,"method":"ping"}`, "5", true},
		{`{"\u0069d":6,"result":{}}`, "6", false},
		{`{"id":1,"id":2,"result":{}}`, "", false},
		{`{"result":"` + strings.Repeat("x", 100), "", false},
		{`{"id":8,"result":"` + strings.Repeat("x", 100), "8", false},
		{`{"id":8`, "", false},
		{`{"id":"` + strings.Repeat("x", 2000) + `"}`, "", false},
		{`[{"id":1,"result":{}}]`, "", false},
		{`x{"id":1}`, "", false},
		{`{"id":{"id":1}}`, "", false},
		{`}]:,"id":1`, "", false},
		{``, "", false},
	} {
		for _, cut := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			var f Finder
			if _, err := io.Copy(&f, cut(strings.NewReader(c.in))); err != nil {
				t.Fatal(err)
			}
			if id := string(f.ID()); id != c.id || f.Method() != c.method {
				t.Errorf("%.80s: id %q, method %v", c.in, id, f.Method())
			}
		}
	}
}

// TestBrokenAnswer: which request a text was meant to answer, and what was meant as no answer.
func TestBrokenAnswer(t *testing.T) {
	const none = "none" // it was meant as an answer, and names no request
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}`:             `7`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":01}}`:          `"x"`,
		`{"jsonrpc":"2.0","result":[1,],"id": 7 }`:                `7`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":"b`:                `7`,
		`{"id":7,"result":{}}`:                                    `7`,
		`{"jsonrpc":"2.0","id":7}`:                                `7`,
		`{"jsonrpc":"2.0","id":7,"method":"m","result":{}}`:       `7`,
		`{"jsonrpc":"2.0","id":7,"id":7,"result":{}}`:             none,
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                 none,
		`{"jsonrpc":"2.0","id":NaN,"error":{}}`:                   none,
		`{"result":1}`:                                            none,
		`{"id":7}`:                                                ``,
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":}}`:   ``,
		`{"jsonrpc":"2.0","method":"m","params":{"result":NaN}}`:  ``,
		`{"level":"error","msg":"m","id":7,"error":NaN}`:          ``,
		`{"jsonrpc":"2.0","level":1,"msg":"m","id":7,"result":,}`: `7`,
		`[{"jsonrpc":"2.0","id":7,"result":{}},`:                  ``,
		`result: 7`:                                               ``, `"result"`: ``, `{`: ``, ``: ``, `{"a":{"id":7,"result":1`: ``,
	} {
		id, meant := BrokenAnswer([]byte(text))
		got := string(id)
		if meant && id == nil {
			got = none
		}
		if got != want || meant != (want != "") {
			t.Errorf("%s: %s, %t, want %s", text, id, meant, want)
		}
	}
}
