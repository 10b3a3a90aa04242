package sealed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

func FuzzForwardSeal(f *testing.F) {
	f.Add([]byte{}, "POST", "a", "b")
	f.Add(bytes.Repeat([]byte{1}, 100), "GET", "\x00", strings.Repeat("x", 300))
	f.Add(append(bytes.Repeat([]byte{1}, 57), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "", "", "")
	s, err := New([][]byte{make([]byte, KeyBytes)}, config.Upstream{URL: "u"}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain []byte, method, name, value string) {
		readForward(plain) // whatever it is
		if _, ok := s.OpenForward(method, string(plain)); ok {
			t.Error("noise was opened")
		}
		want := Forward{At: time.UnixMilli(9), Method: method, Session: value, Guest: name, Header: []mcp.Header{{Name: name, Value: value}}}
		got, ok := s.OpenForward(method, s.SealForward(method, want))
		if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v became %+v", want, got)
		}
	})
}
