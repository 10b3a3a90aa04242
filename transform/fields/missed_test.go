package fields

import (
	"fmt"
	"strings"
	"testing"
)

// TestMissedReturnsPathsThatMatchNothing checks also the names that exist in
// their place.
func TestMissedReturnsPathsThatMatchNothing(t *testing.T) {
	const issues = `{"issues":[{"id":1,"title":"a","assignee":{"name":"x","mail":"y"},"labels":[],"parent":null},{"id":2,"title":"b","assignee":null,"labels":[],"due":3}],"total":2}`
	for _, c := range []struct {
		rule  Rule
		value string
		want  string // path: names
		sure  bool
	}{
		{Rule{Include: []string{"issues.id", "issues.title", "issues.due", "total"}}, issues, "", true},
		{Rule{Include: []string{"issues.id", "issues.titel", "totals"}}, issues, "issues.titel: id title assignee labels parent due; totals: issues total", true},
		{Rule{Include: []string{"issue.id", "issue.title", "total"}}, issues, "issue.id: issues total; issue.title: issues total", true},
		{Rule{Include: []string{"issues.assignee.nmae", "issues.id"}}, issues, "issues.assignee.nmae: name mail", true},
		{Rule{Include: []string{"issues.labels.name", "issues.parent.id", "issues.id"}}, issues, "", false},
		{Rule{Include: []string{"issues.title.text"}}, issues, "issues.title.text: ", true},
		{Rule{Exclude: []string{"issues.assignee.mail", "isues"}}, issues, "-isues: issues total", true},
		{Rule{Include: []string{"issues.*.name", "*.x"}}, issues, "*.x: id title assignee labels parent due", true},
		{Rule{Include: []string{"title", "stat"}}, `{"nodes":[{"title":1,"state":2}],"pageInfo":{}}`, "stat: nodes title state pageInfo", true},
		{Rule{Include: []string{"0.id", "7.id"}}, `[{"id":1}]`, "7.id: ", true},
		{Rule{Include: []string{"id"}}, `[]`, "", false},
		{Rule{Include: []string{"id"}}, `[{}]`, "id: ", true},
		{Rule{Include: []string{`a\.b`, `a\.c`}}, `{"a.b":1}`, `a\.c: a.b`, true},
		{Rule{Include: []string{"id"}}, `{"id":`, "", false},
	} {
		s, err := Compile(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		missed, sure := s.Missed([]byte(c.value))
		var got []string
		for _, m := range missed {
			sign := ""
			if m.Exclude {
				sign = "-"
			}
			got = append(got, fmt.Sprintf("%s%s: %s", sign, m.Path, strings.Join(m.Names, " ")))
		}
		if text := strings.Join(got, "; "); text != c.want || sure != c.sure {
			t.Errorf("%+v\n got  %s, %v\n want %s, %v", c.rule, text, sure, c.want, c.sure)
		}
	}
}
