package sources

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocCommentsBeginWithTheirName: the comment of each declaration in the module begins with the
// declared name, also after an article. A renamed declaration cannot keep the old name in its comment.
func TestDocCommentsBeginWithTheirName(t *testing.T) {
	fset := token.NewFileSet()
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		words := strings.Fields(doc.Text())
		if len(words) == 0 || words[0] == "Deprecated:" {
			return
		}
		if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
			words = words[1:]
		}
		first := strings.TrimSuffix(strings.TrimRight(words[0], ",.:;"), "'s")
		if !slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == first }) {
			t.Errorf("%s: the comment of %s begins with %q", fset.Position(doc.Pos()), names[0].Name, words[0])
		}
	}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						check(docOf(d, s.Doc), s.Name)
					case *ast.ValueSpec:
						check(docOf(d, s.Doc), s.Names...)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// docOf returns the comment of one declaration: its own in a group, else that of d.
func docOf(d *ast.GenDecl, own *ast.CommentGroup) *ast.CommentGroup {
	if d.Lparen.IsValid() {
		return own
	}
	return d.Doc
}
