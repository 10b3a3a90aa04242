// Systems type-checks all packages of dragoman and their tests for the systems and processors that its releases are for,
// and one of 32 bits, and runs the checks of go vet on the packages that have files for one system. It reads
// dependencies from source: go vet would first compile all of them for each system, which takes three times as long.
//
//	go run .
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

var systems = []struct{ os, arch string }{{"linux", "386"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func main() {
	ok := true
	for _, s := range systems {
		fine, err := check("GOOS="+s.os, "GOARCH="+s.arch, "CGO_ENABLED=0")
		if err != nil {
			fmt.Fprintln(os.Stderr, s.os+"/"+s.arch+":", err)
		}
		ok = ok && fine && err == nil
	}
	if !ok {
		os.Exit(1)
	}
}

// check writes what is wrong to standard error, and reports whether nothing is.
func check(env ...string) (bool, error) {
	all, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule, Dir: "../..", Tests: true, Env: append(os.Environ(), env...),
	}, "./...")
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		return false, errors.New("there are no packages")
	}
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
