package transform

import (
	"errors"
	"testing"
)

func TestLinearSource(t *testing.T) {
	s := linearSource{}
	issue := []byte(`{"identifier":"ENG-1","title":"T","description":"long","state":{"name":"Todo"},"comments":{"nodes":[]}}`)
	for want, set := range map[string]map[string]any{
		`{"id":"ENG-1","title":"T","status":"Todo","assignee":null,"priority":null}`:                      nil,
		`{"id":"ENG-1","title":"T","status":"Todo","assignee":null,"priority":null,"description":"long"}`: {"detail": "standard"},
		`{"id":"ENG-1","title":"T","status":"Todo","assignee":null,"priority":null,"comments":[]}`:        {"include_comments": true},
	} {
		v, err := ResolveOptions(s, set)
		if err != nil {
			t.Fatal(err)
		}
		if out, kind, err := s.Apply([]byte("x"), issue, v); err != nil || kind != JSON || string(out) != "x"+want {
			t.Errorf("%v: %s, %v, %v", set, out, kind, err)
		}
		if _, _, err := s.Apply(nil, []byte(`{"errors":[{"message":"x"}]}`), v); !errors.Is(err, ErrUnchanged) {
			t.Errorf("an error: %v", err)
		}
	}
	if s.Match("", "", issue) == 0 || s.Match("", "", []byte(`{"title":"a document","id":"1"}`)) != 0 {
		t.Error("match")
	}
}
