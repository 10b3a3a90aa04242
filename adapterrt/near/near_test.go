package near

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	among := []string{"create_issue", "list_issues", "get_issue", "get_user", "delete_issue"}
	for name, want := range map[string][]string{
		"createIssue":         {"create_issue"},
		"create-issue":        {"create_issue"},
		"issue_create":        {"create_issue"},
		"issues/list":         {"list_issues"},
		"github_create_issue": {"create_issue"},
		"creat_issue":         {"create_issue"},
		"crate_isseu":         {"create_issue"},
		"get_isue":            {"get_issue"},
		"wholly_different":    nil,
		"":                    nil,
	} {
		if got := Names(name, among, 1); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Names("get_issu", among, 3); len(got) == 0 || got[0] != "get_issue" {
		t.Error(got)
	}
	if got := Names("get_issue", among, 0); len(got) != 0 {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "abcd", 1}, {"abc", "xbc", 1}, {"ca", "abc", 3}, {"trust", "turst", 1}, {"requires_confirmaton", "requires_confirmation", 1}} {
		if got := Distance(c.a, c.b, 5); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a, 5); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.b, c.a, got, c.want)
		}
	}
	if got := Distance("abcdefgh", "zzzzzzzz", 2); got <= 2 {
		t.Error(got)
	}
}
