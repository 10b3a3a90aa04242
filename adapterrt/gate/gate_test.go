package gate

import (
	"slices"
	"strings"
	"testing"
)

func TestRequestedCapabilityIsRead(t *testing.T) {
	for value, want := range map[string]string{
		``:                      "",
		`null`:                  "",
		`""`:                    "",
		`[]`:                    "",
		`{}`:                    "",
		`"a\u0062"`:             "ab",
		`["x", 1, {"b": 2}]`:    `x|1|{"b":2}`,
		`{"x": 1, "y": [true]}`: "x|y",
		`0`:                     "expand",
		`false`:                 "expand",
	} {
		var raw []byte
		if value != "" {
			raw = []byte(value)
		}
		if got := strings.Join(AppendRequested(nil, "expand", raw), "|"); got != want {
			t.Errorf("%s: %q, not %q", value, got, want)
		}
	}
}

func TestCapabilitiesAreReadFromTheRow(t *testing.T) {
	const answer = `{"data":{"rows":[{"name":null,"stream":"a","caps":{"expand":["x"]}},{"name":"b","caps":{"expand":[{"name":"y"},"z"]}},{"name":7,"caps":{"expand":true}},{"name":"d","caps":{"expand":{"x":1}}},{"name":"e","caps":{}}]},"one":{"name":"f","caps":{"expand":["x"]}}}`
	for _, c := range []struct {
		list, value string
		requested   string
		some, all   bool // supported, without and with MatchValues
	}{
		{"data.rows", `"a"`, "x", true, true},
		{"data.rows", `"b"`, "x", true, false},
		{"data.rows", `"b"`, "y z", true, true},
		{"data.rows", `7`, "x", true, true},
		{"data.rows", `"7"`, "x", true, true},
		{"data.rows", `"d"`, "y", true, false},
		{"data.rows", `"e"`, "x", false, false},
		{"data.rows", `"zzz"`, "x", false, false},
		{"data.rows", ``, "x", false, false},
		{"one", `"f"`, "x", true, true},
		{"one.name", `"f"`, "x", false, false},
		{"two", `"f"`, "x", false, false},
	} {
		var value []byte
		if c.value != "" {
			value = []byte(c.value)
		}
		r := Rule{List: strings.Split(c.list, "."), Match: [][]string{{"name", "stream"}}, Capability: []string{"caps", "expand"}}
		for _, all := range []bool{false, true} {
			r.MatchValues = all
			row := r.Row([]byte(answer), [][]byte{value})
			want := c.some && !all || c.all && all
			if got := row != nil && r.Supports(row, strings.Fields(c.requested)); got != want {
				t.Errorf("%s = %s, %s, all %v: %v", c.list, c.value, c.requested, all, got)
			}
		}
	}
}

func TestRefusalIsShortAndPrintable(t *testing.T) {
	r := Refusal{Params: []string{"expand"}, Requested: slices.Repeat([]string{"a\x1bb" + strings.Repeat("c", 200)}, 1000), Subject: "stream", Value: "s\n" + strings.Repeat("é", 1000), Source: "get_schema"}
	r.Clean()
	got := r.String()
	if len(r.Requested) != 100 || len([]rune(got)) > 700 || strings.ContainsAny(got, "\n\x1b") ||
		!strings.HasPrefix(got, "expand not supported for stream 's") || !strings.HasSuffix(got, ". Consult get_schema.") {
		t.Errorf("%d values, %s", len(r.Requested), got)
	}
}
