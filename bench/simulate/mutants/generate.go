package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// site is a statement that can be deleted.
type site struct {
	file     string // from the root
	text     []byte // of the file
	from, to int    // the statement in text
}

// String returns the place of the statement and its first line.
func (s site) String() string {
	what, _, _ := bytes.Cut(s.text[s.from:s.to], []byte{'\n'})
	return fmt.Sprintf("%s:%d: %s", s.file, 1+bytes.Count(s.text[:s.from], []byte{'\n'}), what)
}

// without returns the text of the file without the statement. The lines stay where they are.
func (s site) without() []byte {
	out := bytes.Clone(s.text)
	for i := s.from; i < s.to; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	return out
}

// score counts mutants.
type score struct{ generated, killed int }

// generated deletes one statement after the other, and sees whether the simulator notices.
func generated(ctx context.Context, t *tree, o *options, out io.Writer) error {
	all, err := t.sites(strings.Split(o.under, ","))
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	byRoom, whole, needed := map[string]*score{}, score{}, 0
	var survivors []site
	for _, s := range all {
		if whole.generated == o.generate || err != nil {
			break
		}
		v, failed := t.play(ctx, s.file, s.without())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		} else if errors.Is(failed, errNotCompiled) {
			needed++
			continue
		} else if failed != nil {
			err = fmt.Errorf("%v: %w", s, failed)
			continue
		}
		end, room := "survives", filepath.Dir(s.file)
		if byRoom[room] == nil {
			byRoom[room] = new(score)
		}
		byRoom[room].generated++
		whole.generated++
		if v.law == "" {
			survivors = append(survivors, s)
		} else {
			end = fmt.Sprintf("killed after %s by %s, seed %s", v.after, v.law, v.seed)
			byRoom[room].killed++
			whole.killed++
		}
		fmt.Fprintf(out, "%v: %s\n", s, end)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nroom\tgenerated\tkilled\tsurvived")
	row := func(room string, c score) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", room, c.generated, c.killed, c.generated-c.killed)
	}
	for _, room := range slices.Sorted(maps.Keys(byRoom)) {
		row(room, *byRoom[room])
	}
	row("all", whole)
	fmt.Fprintf(w, "%d others do not compile without the statement\n\nSurvivors:\n", needed)
	slices.SortFunc(survivors, func(a, b site) int { return cmp.Or(strings.Compare(a.file, b.file), a.from-b.from) })
	for _, s := range survivors {
		fmt.Fprintln(w, s)
	}
	return errors.Join(err, w.Flush(), enough(whole.killed, whole.generated, o.want))
}

// sites returns the statements that can be deleted in the packages of the simulator under these folders, in their order.
func (t *tree) sites(under []string) (all []site, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,GoFiles", t.simulator)
	cmd.Dir = t.root
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", t.simulator, err)
	}
	for list := json.NewDecoder(bytes.NewReader(said)); list.More(); {
		var pkg struct {
			Dir     string
			GoFiles []string
		}
		if err := list.Decode(&pkg); err != nil {
			return nil, err
		}
		dir, err := filepath.Rel(t.root, pkg.Dir)
		if err != nil || !slices.ContainsFunc(under, func(folder string) bool {
			folder = filepath.Clean(strings.TrimSuffix(folder, "..."))
			return dir == folder || strings.HasPrefix(dir, folder+"/")
		}) {
			continue
		}
		for _, name := range pkg.GoFiles {
			file := filepath.Join(dir, name)
			text, err := os.ReadFile(filepath.Join(t.root, file))
			if err != nil {
				return nil, err
			}
			some, err := sitesIn(file, text)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s uses no package under %q", t.simulator, under)
	}
	return all, nil
}

// sitesIn returns the statements of a file that can be deleted.
func sitesIn(file string, text []byte) (all []site, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	siteOf := func(s ast.Stmt) site {
		return site{file, text, set.Position(s.Pos()).Offset, set.Position(s.End()).Offset}
	}
	shows := func(s ast.Stmt) bool {
		at := siteOf(s)
		return !told.Match(at.text[at.from:at.to])
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			if deletable(s, shows) {
				all = append(all, siteOf(s))
			}
		}
		return true
	})
	return all, nil
}

// told matches statements that only log, measure or observe, and locks, whose absence every world notices.
var told = regexp.MustCompile(`ock\(\)$|Counts\.|zap\.|\.Log\b|[lL]og\(\)\.|\.Inc\(|\.Observe\(|\.Set\(float64|Metrics|Losses|Report\.|Dropped\(|\.Quirk\(|[oO]bserve|\b[sS]een\b|\b[sS]pan\b|Clock\.`)

// deletable reports whether a statement is one whose absence could show. shows reports whether it does more than to tell.
func deletable(s ast.Stmt, shows func(ast.Stmt) bool) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		blank, is := s.Lhs[0].(*ast.Ident)
		return s.Tok != token.DEFINE && !(is && blank.Name == "_" && len(s.Lhs) == 1) && shows(s)
	case *ast.ExprStmt, *ast.SendStmt, *ast.IncDecStmt, *ast.GoStmt, *ast.DeferStmt:
		return shows(s)
	case *ast.IfStmt:
		return s.Else == nil && slices.ContainsFunc(s.Body.List, shows)
	}
	return false
}
