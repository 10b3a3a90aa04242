// Systems type-checks all packages of dragoman and their tests for the systems and processors that its releases are for,
// and one of 32 bits, and runs the checks of go vet on the packages that have files for one system. It reads
// dependencies from source, without the bodies of their functions: go vet would first compile all of them for each system.
//
//	go run .
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

var systems = []struct{ os, arch string }{{"linux", "386"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func main() {
	debug.SetGCPercent(400) // collecting garbage at the usual pace takes half of the time
	folders, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "go env:", err)
		os.Exit(1)
	}
	d := dependencies(strings.Fields(string(folders)))
	ok := true
	for _, s := range systems {
		fine, err := d.check("GOOS="+s.os, "GOARCH="+s.arch, "CGO_ENABLED=0")
		if err != nil {
			fmt.Fprintln(os.Stderr, s.os+"/"+s.arch+":", err)
		}
		ok = ok && fine && err == nil
	}
	if !ok {
		os.Exit(1)
	}
}

// dependencies are the folders of packages that are not dragoman's.
type dependencies []string

func (d dependencies) have(path string) bool {
	return slices.ContainsFunc(d, func(folder string) bool { return strings.HasPrefix(path, folder+string(os.PathSeparator)) })
}

// parse reads a file, of a dependency without the bodies of its functions.
func (d dependencies) parse(files *token.FileSet, path string, text []byte) (*ast.File, error) {
	if !d.have(path) {
		return parser.ParseFile(files, path, text, parser.AllErrors|parser.ParseComments|parser.SkipObjectResolution)
	}
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if file != nil {
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is {
				f.Body = nil
			}
		}
	}
	return file, err
}

// check writes what is wrong to standard error, and reports whether nothing is.
func (d dependencies) check(env ...string) (bool, error) {
	all, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule, Dir: "../..", Tests: true, Env: append(os.Environ(), env...), ParseFile: d.parse,
	}, "./...")
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		return false, errors.New("there are no packages")
	}
	packages.Visit(all, nil, func(p *packages.Package) {
		if len(p.GoFiles) > 0 && d.have(p.GoFiles[0]) {
			p.Errors = nil // without bodies, imports are not used
		}
		p.IllTyped = len(p.Errors) > 0
	})
	if packages.PrintErrors(all) > 0 {
		return false, nil
	}
	ofSystems := slices.DeleteFunc(all, func(p *packages.Package) bool { return len(p.IgnoredFiles) == 0 })
	found, err := checker.Analyze(suite(), ofSystems, nil)
	if err != nil {
		return false, err
	}
	clean := true
	for a := range found.All() {
		if a.IsRoot && (a.Err != nil || len(a.Diagnostics) > 0) {
			clean = false
		}
	}
	return clean, found.PrintText(os.Stderr, 0)
}

// suite returns the checks of this Go's go vet: the library has one that comes with the next.
func suite() []*analysis.Analyzer {
	return slices.DeleteFunc(slices.Clone(vet.Suite), func(a *analysis.Analyzer) bool { return a.Name == "scannererr" })
}
