package sources

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// holdersFile names each field that may grow, with how its bytes are bounded and when they end.
const holdersFile = "testdata/holders.txt"

// notHolders are the packages of tests, of the configuration, and of commands that serve no client.
var notHolders = []string{"config", "setting", "doctor", "probe", "filter", "demo", "peertest", "oauthtest", "storetest", "collectortest", "openapi", "file", "present", "schema", "fields", "fit", "tokens"}

// TestEveryHolderIsBounded: each map and list in a type, and each slice beside a lock, has a line that says how what it holds is
// counted in bytes. A new one fails here until it is said.
func TestEveryHolderIsBounded(t *testing.T) {
	text, err := os.ReadFile(holdersFile)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, how, ok := strings.Cut(line, ": ")
		word, _, _ := strings.Cut(how, ",")
		if !ok || !slices.Contains([]string{"kept", "in hand", "own bytes", "number", "message", "setup", "NOT COUNTED"}, word) || said[name] != "" {
			t.Errorf("%s: line %q", holdersFile, line)
		}
		said[name] = how
	}
	found := map[string]bool{}
	for _, root := range []string{"../..", "../../../adapterrt", "../../../transform"} {
		for _, name := range holdersIn(t, root) {
			found[name] = true
			switch how := said[name]; {
			case how == "":
				t.Errorf("%s may grow: say in %s how its bytes are counted, whose they are and when they end", name, holdersFile)
			case strings.HasPrefix(how, "NOT"):
				t.Logf("%s: %s", name, how)
			}
		}
	}
	for name := range said {
		if !found[name] {
			t.Errorf("%s: %s is no more", holdersFile, name)
		}
	}
}

// holdersIn returns the fields below root that may grow, as package Type.field.
func holdersIn(t *testing.T, root string) (names []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(notHolders, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if is, ok := named.Type.(*ast.StructType); ok {
					for _, field := range growing(is) {
						names = append(names, parsed.Name.Name+" "+named.Name.Name+"."+field)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// growing returns the fields of a type that may grow: maps and lists, and slices of a type that has a lock or a turn.
func growing(is *ast.StructType) (names []string) {
	locked := slices.ContainsFunc(is.Fields.List, func(f *ast.Field) bool {
		return isOf(f.Type, "sync", "Mutex", "RWMutex") || len(f.Names) == 1 && f.Names[0].Name == "turn"
	})
	for _, f := range is.Fields.List {
		kind := f.Type
		if p, ok := kind.(*ast.StarExpr); ok {
			kind = p.X
		}
		_, isMap := kind.(*ast.MapType)
		slice, isSlice := kind.(*ast.ArrayType)
		if isMap || isSlice && slice.Len == nil && locked || isOf(kind, "list", "List") || isOf(kind, "ordered", "List") || isOf(kind, "sync", "Map") {
			for _, name := range f.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// isOf reports whether a type is one of these of a package.
func isOf(kind ast.Expr, pkg string, names ...string) bool {
	s, ok := kind.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, s.Sel.Name)
}
