package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"math"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestFilesPointDown: the files of a folder have an order, in which a file uses only what the files below it declare.
// In other words, no two files use each other, not even by way of others. What is below need not be read to be
// believed, and what is above need not be known. Of files that use each other in a circle, the arrows that run upwards are
// those of the best order.
//
// A file uses what is declared outside of functions in another one: functions, types, methods, fields, variables. A method
// may be in another file than its type: it uses the name and the fields of its type freely, but not the other methods. What a
// lower file needs of a higher one it gets as a value of an interface or a function type of its own.
//
// With -v the test prints the number of arrows of each folder. For a folder that fails, it names the uses that run
// upwards. Mend them by moving a declaration to the file that it belongs to; by an interface; or by making one file
// of two that cannot be read alone.
func TestFilesPointDown(t *testing.T) {
	for _, f := range checkedFolders(t) {
		up := f.upwards()
		t.Logf("%-28s %3d arrows, %d upwards", f.name, len(f.arrows()), len(up))
		if len(up) > 0 {
			t.Errorf("%s: %d arrows between files run upwards, want 0\n%s", f.name, len(up), f.shown(up))
		}
	}
}

// A folder is a package, with the uses between its files.
type folder struct {
	name string
	uses map[arrow][]use
	eras []token.Position // where the era of a revision is asked for

	pooled []*types.TypeName // what the pools of the package itself keep
}

// An arrow leads from a file to one that declares what it uses.
type arrow struct{ from, to string }

// A use is a name that a file uses of another, and where.
type use struct {
	line int
	name string
}

// checkedFolders type-checks the packages of the product.
func checkedFolders(t *testing.T) []*folder {
	t.Helper()
	folders, err := checked()
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// checked is done once for all tests. What the packages import comes from the build cache.
var checked = sync.OnceValues(func() ([]*folder, error) {
	const module = "github.com/dragoman-proxy/dragoman/"
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", "./adapterrt/...", "./cmd/command",
		"./cmd/dragoman", "./cmd/proxy", "./deploy", "./proxy/...", "./transform/...", "./translate/...")
	list.Dir, list.Stderr = "../../..", os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	exports := map[string]string{}
	var ours []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	var folders []*folder
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			parsed = append(parsed, file)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		in, err := config.Check(p.ImportPath, files, parsed, info)
		if err != nil {
			return nil, err
		}
		f := &folder{name: strings.TrimPrefix(p.ImportPath, module), uses: map[arrow][]use{}}
		for id, used := range info.Uses {
			if used.Pkg() != nil && used.Pkg() != in && used.Pkg().Path() == module+"translate" && isEra(used) {
				f.eras = append(f.eras, files.Position(id.Pos()))
			}
		}
		for _, file := range parsed {
			f.pooled = append(f.pooled, pooledIn(file, info)...)
			f.addUses(files, file, in, info)
		}
		folders = append(folders, f)
	}
	slices.SortFunc(folders, func(a, b *folder) int { return strings.Compare(a.name, b.name) })
	return folders, nil
})

// addUses adds what file uses of others.
func (f *folder) addUses(files *token.FileSet, file *ast.File, in *types.Package, info *types.Info) {
	from := filepath.Base(files.File(file.FileStart).Name())
	for _, decl := range file.Decls {
		var own *types.TypeName // of the method's receiver
		if m, ok := decl.(*ast.FuncDecl); ok && m.Recv != nil {
			own = receiver(info.Defs[m.Name].(*types.Func))
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := info.Uses[id]
			if used == nil || used.Pkg() != in || used == own || !notLocal(used, in) || isFieldOf(used, own) {
				return true
			}
			if to := filepath.Base(files.Position(declared(used).Pos()).Filename); to != from {
				a := arrow{from, to}
				f.uses[a] = append(f.uses[a], use{files.Position(id.Pos()).Line, used.Name()})
			}
			return true
		})
	}
}

// receiver returns the type that a method belongs to.
func receiver(m *types.Func) *types.TypeName {
	at := m.Signature().Recv().Type()
	if p, ok := at.(*types.Pointer); ok {
		at = p.Elem()
	}
	return at.(*types.Named).Obj()
}

// declared returns what a generic declaration says, of what was made of it.
func declared(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// notLocal reports whether o is no local name: it is declared outside of functions, or a method or a field.
func notLocal(o types.Object, in *types.Package) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == in.Scope()
	}
	return o.Parent() == in.Scope()
}

// isFieldOf reports whether o is a field of the struct that a type is.
func isFieldOf(o types.Object, of *types.TypeName) bool {
	if v, ok := o.(*types.Var); !ok || !v.IsField() || of == nil {
		return false
	}
	s, ok := of.Type().Underlying().(*types.Struct)
	return ok && slices.ContainsFunc(slices.Collect(s.Fields()), func(v *types.Var) bool { return v.Origin() == declared(o) })
}

func (f *folder) arrows() []arrow {
	return slices.SortedFunc(maps.Keys(f.uses), func(a, b arrow) int {
		return strings.Compare(a.from+" "+a.to, b.from+" "+b.to)
	})
}

// shown returns the names behind arrows, each with its first use.
func (f *folder) shown(arrows []arrow) string {
	var b strings.Builder
	for _, a := range arrows {
		seen := map[string]bool{}
		for _, u := range f.uses[a] {
			if !seen[u.name] {
				seen[u.name] = true
				fmt.Fprintf(&b, "\t%s/%s:%d uses %s of %s\n", f.name, a.from, u.line, u.name, a.to)
			}
		}
	}
	return b.String()
}

// upwards returns the arrows that run upwards in the best order of the files: as few as there can be.
func (f *folder) upwards() []arrow {
	var up []arrow
	for _, circle := range f.circles() {
		at := map[string]int{}
		for i, name := range bestOrder(circle, f.uses) {
			at[name] = i
		}
		for _, a := range f.arrows() {
			from, ok := at[a.from]
			to, also := at[a.to]
			if ok && also && from > to {
				up = append(up, a)
			}
		}
	}
	return up
}

// circles returns the files that use each other, also by way of others; without those that are in no circle.
func (f *folder) circles() [][]string {
	reach := map[arrow]bool{}
	var files []string
	for a := range f.uses {
		reach[a] = true
		files = append(files, a.from, a.to)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	for _, by := range files {
		for _, a := range files {
			for _, b := range files {
				if reach[arrow{a, by}] && reach[arrow{by, b}] {
					reach[arrow{a, b}] = true
				}
			}
		}
	}
	var circles [][]string
	seen := map[string]bool{}
	for _, a := range files {
		if !reach[arrow{a, a}] || seen[a] {
			continue
		}
		circle := []string{}
		for _, b := range files {
			if reach[arrow{a, b}] && reach[arrow{b, a}] {
				circle, seen[b] = append(circle, b), true
			}
		}
		circles = append(circles, circle)
	}
	return circles
}

// bestOrder returns the files of a circle in the order in which the fewest arrows run upwards, and of such orders in one with
// the fewest uses behind these arrows. Of more than 16 files, only the order within each window of 16 is the best.
func bestOrder(circle []string, uses map[arrow][]use) []string {
	const window = 16
	price := func(from, to string) int {
		if n := len(uses[arrow{from, to}]); n > 0 {
			return 1<<16 + n
		}
		return 0
	}
	order := slices.Clone(circle)
	total := func() (sum int) {
		for i, from := range order {
			for _, to := range order[:i] {
				sum += price(from, to)
			}
		}
		return sum
	}
	for before := total() + 1; total() < before; {
		before = total()
		for i := 0; i == 0 || i+window <= len(order); i++ {
			part := order[i:min(i+window, len(order))]
			copy(part, exactOrder(slices.Clone(part), price))
		}
	}
	return order
}

// exactOrder tries all orders, by the sets of files that can be on top: the best order of a set ends with one of its files
// behind the best order of the others.
func exactOrder(files []string, price func(from, to string) int) []string {
	n := len(files)
	prices := make([][]int, n)
	for i := range files {
		for j := range files {
			prices[i] = append(prices[i], price(files[i], files[j]))
		}
	}
	least, last := make([]int, 1<<n), make([]int, 1<<n)
	for set := uint(1); set < 1<<n; set++ {
		least[set] = math.MaxInt
		for members := set; members != 0; members &= members - 1 {
			i := bits.TrailingZeros(members)
			rest := set &^ (1 << i)
			sum := least[rest]
			for above := rest; above != 0; above &= above - 1 {
				sum += prices[i][bits.TrailingZeros(above)]
			}
			if sum < least[set] {
				least[set], last[set] = sum, i
			}
		}
	}
	order := make([]string, n)
	for set := uint(1)<<n - 1; set != 0; {
		i := last[set]
		set &^= 1 << i
		order[bits.OnesCount(set)] = files[i]
	}
	return order
}
