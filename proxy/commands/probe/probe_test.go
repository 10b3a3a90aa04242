package probe

import (
	"slices"
	"testing"
)

// TestLostCapabilities: tasks have another name in the other era, and are not lost.
func TestLostCapabilities(t *testing.T) {
	const tasks, other = "extensions.io.modelcontextprotocol/tasks", "extensions.example.com/x"
	for _, c := range []struct {
		name                string
		said, offered, lost []string
	}{
		{"the same", []string{"tools", "tools.listChanged"}, []string{"tools"}, nil},
		{"one is lost", []string{"tools", "logging"}, []string{"tools"}, []string{"logging"}},
		{"tasks are the extension", []string{"tools", "tasks", "tasks.list"}, []string{"tools", "extensions", tasks}, nil},
		{"tasks are lost", []string{"tasks"}, []string{"extensions", other}, []string{"tasks"}},
		{"the extension is tasks", []string{"extensions", tasks}, []string{"tasks"}, nil},
		{"another extension is lost", []string{"extensions", tasks, other}, []string{"tasks"}, []string{"extensions"}},
		{"the extension is lost", []string{"extensions", tasks}, nil, []string{"extensions"}},
	} {
		if got := lostCapabilities(c.said, c.offered); !slices.Equal(got, c.lost) {
			t.Errorf("%s: %q, want %q", c.name, got, c.lost)
		}
	}
}
