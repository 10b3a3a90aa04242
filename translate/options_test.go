package translate_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// optionsOf parses lines such as tasks=strip, for the engine and its slow twin.
func optionsOf(t testing.TB, lines []string) (translate.Options, slowtest.Options) {
	t.Helper()
	var o translate.Options
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "resource_contents_name":
			o.ResourceContentsName = value
		case "elicitation_fallback":
			o.ElicitationFallback = value
		case "tasks":
			o.Tasks = value
		default:
			t.Fatalf("unknown option %q", line)
		}
	}
	return o, slowtest.Options(o)
}

// TestPlacesOfLosses checks that Trace lists each place of a loss, with the names that
// the message has, even if no rule knows them.
func TestPlacesOfLosses(t *testing.T) {
	table := newTable(t, translate.Options{})
	tr := table.Between(revision(t, "2026-07-28"), revision(t, "2025-11-25"))
	m := wire.Message{Trace: true}
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"my \"key":true,"sp\u0065cial":false}}},{"name":"b"},{"name":"c","inputSchema":{"type":"object","properties":{"a.b":true}},"outputSchema":[]}]}}`
	if err := m.Scan([]byte(in), tr.Shape()); err != nil {
		t.Fatal(err)
	}
	m.Method = wire.ToolsList
	if _, _, err := tr.Rewrite(nil, &m); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Places {
		got = append(got, p.Level.String()+" "+p.Rule+" "+p.Path)
	}
	want := []string{
		`INFO C25 result.tools[0].inputSchema.properties["my \"key"]`, `INFO C25 result.tools[0].inputSchema.properties.special`,
		`INFO C25 result.tools[2].inputSchema.properties["a.b"]`, `INFO C03 result.tools[2].outputSchema`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := m.Scan([]byte(in), tr.Shape()); err != nil || len(m.Places) != 0 || !m.Trace {
		t.Errorf("after another scan: %v %v", m.Places, err)
	}
}
