package sources

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// leaves returns whether a path that a file of a folder names is above the top of the repository. Both are relative to that top.
func leaves(folder, name string) bool {
	at := path.Join(folder, filepath.ToSlash(name))
	return at == ".." || strings.HasPrefix(at, "../")
}

// upward matches a relative path that begins with "..".
var upward = regexp.MustCompile(`(?:^|[\s"'=(\x60])((?:\.\./)+[\w./-]*)`)

// namesOutside returns the paths in a source that lead above the top of the repository.
func namesOutside(t *testing.T, file string, text []byte) (all []string) {
	t.Helper()
	folder := path.Dir(file)
	if !strings.HasSuffix(file, ".go") {
		for _, m := range upward.FindAllStringSubmatch(string(text), -1) {
			if leaves(folder, m[1]) {
				all = append(all, m[1])
			}
		}
		return all
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok { // such as filepath.Join("..", "..", "docs")
			var parts []string
			for _, arg := range call.Args {
				part, ok := literal(arg)
				if !ok {
					break
				}
				parts = append(parts, part)
			}
			if len(parts) > 1 && parts[0] == ".." && leaves(folder, path.Join(parts...)) {
				all = append(all, path.Join(parts...))
			}
		}
		if e, ok := n.(ast.Expr); ok {
			if name, ok := literal(e); ok && strings.HasPrefix(name, "../") && leaves(folder, name) {
				all = append(all, name)
			}
		}
		return true
	})
	return all
}

// literal returns the text of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// TestNoSourceNamesAPathOutside: a clone has nothing beside it, so no source of the repository reads what is there.
func TestNoSourceNamesAPathOutside(t *testing.T) {
	attack := regexp.MustCompile(`(^|/)etc/passwd$`) // a test sends it to a peer
	seen := 0
	err := filepath.WalkDir("../../..", func(file string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(file), "../../../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		switch ext := path.Ext(name); {
		case ext == ".go", ext == ".mjs", ext == ".js", ext == ".sh", ext == ".yaml", path.Base(name) == "Makefile", strings.HasPrefix(name, ".ci/"):
		default:
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seen++
		for _, outside := range namesOutside(t, name, text) {
			if !attack.MatchString(outside) {
				t.Errorf("%s names %s, which a fresh clone does not have: copy what is needed into testdata", name, outside)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 1000 {
		t.Errorf("only %d sources were read", seen)
	}
}

// TestPathsOutsideAreFound checks TestNoSourceNamesAPathOutside.
func TestPathsOutsideAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`package x; var _ = "../../y/z.json"`:                            1,
		`package x; var _ = os.Open(filepath.Join("..", "..", "y", z))`:  1,
		`package x; var _ = os.Open(filepath.Join("..", "y", "..", ""))`: 0,
		`package x; var _ = "../docs/page.md"`:                           0,
	} {
		if got := namesOutside(t, "proxy/x.go", []byte(source)); len(got) != want {
			t.Errorf("%s: %q", source, got)
		}
	}
	if got := namesOutside(t, "Makefile", []byte("x:\n\tcat ../shared/y deploy/../z\n")); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
