package file

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/adapter-format.md")

// reference is the page that is generated from the blocks and their examples.
const reference = "../../docs/adapter-format.md"

// format has all blocks, in the order of the page.
var format = []*block{
	&adapterBlock, &laterKeys, &elsewhere,
	&targetBlock,
	&authBlock, &mtlsKey, &secretKeys, &bearerBlock, &apiKeyBlock, &basicBlock, &oauthBlock, &mutualBlock, &awsBlock, &alsoBlock,
	&trustBlock,
	&limitsBlock, &apiLimitBlock, &quotasBlock, &quotaBlock,
	&breakerBlock,
	&errorBlock, &whenBlock,
	&typeBlock, &typeFieldBlock,
	&operationBlock,
	&paramBlock, &valueBlock, &propertyBlock, &fileBlock,
	&requestBlock, &responseBlock, &answerBlock,
	&pagingBlock, &cacheBlock, &dangerBlock, &gateBlock, &deprecatedBlock, &lifecycleBlock,
}

var referenceHead = strings.ReplaceAll(`# Adapter files

Every key of an adapter file, with what it takes, its default and an example. [adapters.md](adapters.md) says what adapters are for and how
clients see them. ~dragoman adapter new NAME~ prints a file to start from, and ~dragoman adapter validate~ reports every mistake in one.

A file is Markdown, called ~NAME-adapter.md~, of up to 1 MiB. Between two lines of ~---~ at its beginning is YAML 1.2, in which
~no~ and ~on~ are strings. The text after it is for people, and may have examples that ~dragoman adapter test~ plays.

- A *variable* is the name of an environment variable that has the value, a *file* the path of a file that has it, which may begin with ~. A *dotted path* is
  names of members with dots between, as in ~data.items~.
- A key whose value is null counts as absent, but for the keys of ~auth~ and ~required~, ~default~ and ~enum~ of a parameter, where it is a mistake.
- Keys that begin with ~x-~ are yours. Any other unknown key is a warning, with ~adapter validate --strict~ an error; in a block that protects
  something, and if it resembles a key that does, it is always an error.
- ~error_codes~ and ~shared_parameters~ at the top, and the safety keys ~approval~, ~escalation~ and ~operation_overrides~, are of other
  runtimes. dragoman does not support them: what the safety keys are for needs confirmation instead.
- A credential itself (~token~, ~key~, ~api_key~, ~password~, ~client_secret~, ~refresh_token~, ~access_key_id~, ~secret_access_key~,
  ~session_token~) does not belong into ~auth~.

In the examples of operations, ~name~, ~maps_to~ and ~description~ are left out where they do not matter.
`, "~", "`")

// TestReference compares docs/adapter-format.md with the blocks. With -update it writes the page.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString(referenceHead)
	texts := map[string][]string{}
	for _, e := range examples(t) {
		if !e.more {
			texts[e.at] = append(texts[e.at], e.text)
		}
	}
	for i, b := range format {
		if b.at == "" {
			for _, name := range names(format[i : i+1]) {
				if !strings.Contains(referenceHead, "`"+name+"`") {
					t.Errorf("the head of the page does not name %s", name)
				}
			}
			continue
		}
		if shown := format[:i]; !slices.ContainsFunc(shown, func(o *block) bool { return o.at == b.at }) {
			section(&page, b.at, texts[b.at])
		}
	}
	if *update {
		if err := os.WriteFile(reference, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(reference); err != nil || string(got) != page.String() {
		t.Errorf("docs/adapter-format.md is not what the checks know (%v): go test ./adapterrt/file -run TestReference -update", err)
	}
}

// section writes the blocks of a place.
func section(page *strings.Builder, at string, examples []string) {
	var all []key
	fmt.Fprintf(page, "\n## %s\n\n", at)
	for _, b := range format {
		if b.at == at {
			if all = append(all, b.keys...); b.about != "" {
				fmt.Fprintf(page, "%s\n\n", b.about)
			}
		}
	}
	page.WriteString("| key | takes | default | |\n|---|---|---|---|\n")
	for len(all) > 0 {
		named, takes := "`"+all[0].name+"`", all[0].takes
		first := all[0]
		for all = all[1:]; len(all) > 0 && all[0].means == ""; all = all[1:] {
			if named += ", `" + all[0].name + "`"; all[0].takes != first.takes {
				takes += " or " + all[0].takes
			}
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", named, takes, first.absent, first.means)
	}
	for _, text := range examples {
		fmt.Fprintf(page, "\n```yaml\n%s```\n", text)
	}
}

// TestEveryBlockIsListed checks that the page has all blocks that checks use.
func TestEveryBlockIsListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, value := range v.Values {
					if c, ok := value.(*ast.CompositeLit); ok {
						if is, ok := c.Type.(*ast.Ident); ok && is.Name == "block" {
							declared = append(declared, v.Names[i].Name)
						}
					}
				}
			}
			return true
		})
	}
	if len(declared) != len(format) {
		t.Errorf("format has %d blocks, declared are %d: %v", len(format), len(declared), declared)
	}
	for i, b := range format {
		if slices.Contains(format[:i], b) {
			t.Errorf("%s is listed twice", b.at)
		}
	}
}
