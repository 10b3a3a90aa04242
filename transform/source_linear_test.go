package transform

import (
	"errors"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
	"github.com/tidwall/gjson"
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

// TestFieldsOfSummaries checks that include_fields names members of an issue,
// whatever list the issue came in.
func TestFieldsOfSummaries(t *testing.T) {
	e, err := configure(t, `transform: {rules: [{match: {tool: "list_issues"}, adapter: linear, include_fields: [id, title]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"identifier":"ENG-1","title":"T"}`:                                                    `{"id":"ENG-1","title":"T"}`,
		`[{"identifier":"ENG-1","title":"T"}]`:                                                  `[{"id":"ENG-1","title":"T"}]`,
		`{"issues":[{"identifier":"ENG-1","title":"T"}],"nextCursor":"n"}`:                      `{"issues":[{"id":"ENG-1","title":"T"}],"nextCursor":"n"}`,
		`{"data":{"issues":{"nodes":[{"identifier":"ENG-1","title":"T"}],"pageInfo":{"a":1}}}}`: `{"issues":[{"id":"ENG-1","title":"T"}],"pageInfo":{"a":1}}`,
	} {
		result := append(wire.AppendQuoted([]byte(`{"content":[{"type":"text","text":`), []byte(in)), `}]}`...)
		out, _ := e.Apply(nil, result, &Call{Tool: "list_issues"})
		if got := gjson.GetBytes(out, "content.0.text").String(); got != want {
			t.Errorf("%s\n got  %s\n want %s", in, got, want)
		}
	}
}
