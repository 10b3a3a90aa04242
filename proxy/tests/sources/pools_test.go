package sources

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// zeroed begin the names of fields that are set to zero, as a whole, where the pool gets them.
var zeroed = []string{
	"proxy/bridge/legacyclient reading.",     // in Close
	"proxy/session/exchange Exchange.state.", // in recycle
}

// TestPoolsOfPackagesKeepNoChannels: a channel, a timer or a context that is made in a bubble of testing/synctest must not be used in
// another one: the program dies. What a pool of a package keeps goes from one bubble to the next, so that such things belong into a pool
// of the object that they serve.
func TestPoolsOfPackagesKeepNoChannels(t *testing.T) {
	found := 0
	for _, f := range checkedFolders(t) {
		for _, name := range f.pooled {
			found++
			for _, field := range boundToABubble(name.Type(), name.Name()) {
				if !slices.ContainsFunc(zeroed, func(prefix string) bool { return strings.HasPrefix(f.name+" "+field, prefix) }) {
					t.Errorf("%s: a pool of the package keeps %s: give each object that uses it a pool of its own, or set it to zero before the pool gets it, and say so in zeroed", f.name, field)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no pool was found")
	}
}

// pooledIn returns the types of what the pools of a package make that file declares.
func pooledIn(file *ast.File, info *types.Info) (names []*types.TypeName) {
	for _, decl := range file.Decls {
		vars, ok := decl.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				made, ok := value.(*ast.CompositeLit)
				if !ok || !isOf(made.Type, "sync", "Pool") {
					continue
				}
				ast.Inspect(made, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						if name, ok := info.Uses[id].(*types.TypeName); ok && name.Pkg() != nil && name.Name() != "Pool" {
							names = append(names, name)
						}
					}
					return true
				})
			}
		}
	}
	return names
}

// boundToABubble returns the fields in a type that a bubble owns.
func boundToABubble(in types.Type, at string) (fields []string) {
	switch in.String() {
	case "context.Context", "*time.Timer", "*time.Ticker":
		return []string{at}
	}
	switch in := in.Underlying().(type) {
	case *types.Chan:
		return []string{at}
	case *types.Array:
		return boundToABubble(in.Elem(), at)
	case *types.Struct:
		for f := range in.Fields() {
			fields = append(fields, boundToABubble(f.Type(), at+"."+f.Name())...)
		}
	}
	return fields
}
