package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportPageShowsTheCommandsOutput runs the commands of docs/import.md and compares what they print, and the operations
// that they write, with the page.
func TestImportPageShowsTheCommandsOutput(t *testing.T) {
	t.Setenv("PET_SHOP_TOKEN", "")
	page, err := os.ReadFile("../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	document := ""
	_, rest, _ := strings.Cut(text, "    cat > api.yaml <<'EOF'\n")
	for line := range strings.Lines(rest) {
		if line == "    EOF\n" {
			break
		}
		document += strings.TrimPrefix(line, "    ")
	}
	dir := folderWith(t, map[string]string{"api.yaml": document, "new.yaml": strings.Replace(document, "maximum: 100", "maximum: 50", 1)})
	t.Chdir(dir)
	run := func(command string) string {
		out, errOut, _ := adapter(t, dir, strings.Fields(strings.TrimPrefix(command, "dragoman adapter "))...)
		return out + errOut
	}
	sections := strings.Split(text, "\n    $ ")[1:]
	commands := 0
	for _, s := range sections {
		s, _, _ = strings.Cut(s, "\n\n")
		command, shown, _ := strings.Cut(s, "\n")
		if !strings.HasPrefix(command, "dragoman ") {
			continue
		}
		commands++
		shown = strings.TrimSpace(strings.ReplaceAll("\n"+shown, "\n    ", "\n"))
		if got := run(command); !strings.HasPrefix(withoutCosts(got), withoutCosts(shown)) {
			t.Errorf("%s prints\n%s\nthe page has\n%s", command, got, shown)
		}
		if commands == 1 {
			made, err := os.ReadFile(filepath.Join("adapters", "pet-shop-adapter.md"))
			if err != nil {
				t.Fatal(err)
			}
			_, yaml, _ := strings.Cut(text, "```yaml\n")
			yaml, _, _ = strings.Cut(yaml, "```")
			if !strings.Contains(string(made), yaml) {
				t.Errorf("the file has other operations:\n%s", made)
			}
		}
	}
	if commands != 3 {
		t.Error(commands, "commands")
	}
}
