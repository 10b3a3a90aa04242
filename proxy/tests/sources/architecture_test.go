package sources

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestArchitectureNamesFunctionsThatExist: each `folder.(*Type).Method` and `folder.function` in
// docs/architecture.md exists in that folder.
func TestArchitectureNamesFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z/]+)\\.(?:\\(\\*([A-Za-z]+)\\)\\.)?([A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 50 {
		t.Fatalf("%d names", len(names))
	}
	folders := map[string]map[string]bool{}
	for _, n := range names {
		folder := n[1]
		if folders[folder] == nil {
			folders[folder] = functionsOf(t, folder)
		}
		if !folders[folder][n[2]+"."+n[3]] {
			t.Errorf("%s is not there", n[0])
		}
	}
}

// functionsOf returns the functions of a package, as "Type.method" or ".function".
func functionsOf(t *testing.T, folder string) map[string]bool {
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			receiver := ""
			if f.Recv != nil {
				typ := f.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				if generic, ok := typ.(*ast.IndexExpr); ok {
					typ = generic.X
				}
				if name, ok := typ.(*ast.Ident); ok {
					receiver = name.Name
				}
			}
			all[receiver+"."+f.Name.Name] = true
		}
	}
	return all
}
