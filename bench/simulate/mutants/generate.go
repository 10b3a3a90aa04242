package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// site is a statement that can be deleted.
type site struct {
	file     string // from the root
	line     int
	from, to int // where it is in the file
	what     string
}

// score says what became of the mutants of one room.
type score struct{ generated, killed, survived int }

// generated deletes one statement after the other, and sees whether the simulator notices.
func generated(t *tree, o *options, out io.Writer) error {
	all, err := t.sites(strings.Split(o.under, ","))
	if err != nil {
		return err
	}
	each := or(o.each, 20*time.Second)
	if err := t.sound(each); err != nil {
		return err
	}
	draw := rand.New(rand.NewPCG(o.seed, 0))
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	byRoom := map[string]*score{}
	var survivors []site
	whole, refused := score{}, 0
	for _, s := range all {
		if whole.generated == o.generate {
			break
		}
		text, err := s.without(t.root)
		if err != nil {
			return err
		}
		if _, no := errors.AsType[*notCompiled](t.compile(s.file, text)); no {
			refused++
			continue
		}
		v := t.try(s.file, text, each)
		if v.err != nil {
			return fmt.Errorf("%s:%d: %w", s.file, s.line, v.err)
		}
		room := filepath.Dir(s.file)
		if byRoom[room] == nil {
			byRoom[room] = new(score)
		}
		end := "survives"
		for _, c := range []*score{&whole, byRoom[room]} {
			if c.generated++; v.law != "" {
				c.killed++
				end = "killed after " + v.after + " by " + v.law + ", seed " + v.seed
			} else {
				c.survived++
			}
		}
		if v.law == "" {
			survivors = append(survivors, s)
		}
		fmt.Fprintf(out, "%s:%d: %s: %s\n", s.file, s.line, s.what, end)
	}
	table(out, byRoom, whole)
	fmt.Fprintf(out, "%d statements were drawn that cannot be deleted alone\n\nSurvivors:\n", refused)
	slices.SortFunc(survivors, func(a, b site) int { return strings.Compare(a.file, b.file)*1_000_000 + a.line - b.line })
	for _, s := range survivors {
		fmt.Fprintf(out, "%s:%d: %s\n", s.file, s.line, s.what)
	}
	if float64(whole.killed) < o.want*float64(whole.generated) {
		return fmt.Errorf("less than %.0f %% of the mutants were killed", 100*o.want)
	}
	return nil
}

func table(out io.Writer, byRoom map[string]*score, whole score) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nroom\tgenerated\tkilled\tsurvived")
	names := make([]string, 0, len(byRoom))
	for room := range byRoom {
		names = append(names, room)
	}
	slices.Sort(names)
	for _, room := range names {
		c := byRoom[room]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", room, c.generated, c.killed, c.survived)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\n", whole.generated, whole.killed, whole.survived)
	w.Flush() //nolint:errcheck // the writer of a table has nowhere to say it
}

// sites returns the statements that can be deleted in the packages of the simulator under these folders, in their order.
func (t *tree) sites(under []string) (all []site, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,GoFiles", t.simulator)
	cmd.Dir = t.root
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", t.simulator, err)
	}
	for list := json.NewDecoder(bytes.NewReader(said)); ; {
		var pkg struct {
			Dir     string
			GoFiles []string
		}
		if err := list.Decode(&pkg); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		dir, err := filepath.Rel(t.root, pkg.Dir)
		within := func(folder string) bool {
			folder = strings.TrimSuffix(filepath.Clean(strings.TrimPrefix(folder, "./")), "/...")
			return dir == folder || strings.HasPrefix(dir, folder+"/")
		}
		if err != nil || !slices.ContainsFunc(under, within) {
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
			at := site{file: file, line: set.Position(s.Pos()).Line, from: set.Position(s.Pos()).Offset, to: set.Position(s.End()).Offset}
			if all0 := string(text[at.from:at.to]); deletable(s, func(s ast.Stmt) string {
				return string(text[set.Position(s.Pos()).Offset:set.Position(s.End()).Offset])
			}) {
				at.what, _, _ = strings.Cut(all0, "\n")
				all = append(all, at)
			}
		}
		return true
	})
	return all, nil
}

// told matches statements that only log, measure or observe.
var told = regexp.MustCompile(`zap\.|\.Log\b|[lL]og\(\)\.|\.Inc\(|\.Observe\(|\.Set\(float64|Metrics|Losses|Report\.|Dropped\(|\.Quirk\(|[oO]bserve|\b[sS]een\b|\b[sS]pan\b|Clock\.`)

// deletable reports whether a statement is one whose absence could show. textOf returns what it is in the file.
func deletable(s ast.Stmt, textOf func(ast.Stmt) string) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		if first, is := s.Lhs[0].(*ast.Ident); s.Tok == token.DEFINE || is && first.Name == "_" && len(s.Lhs) == 1 {
			return false
		}
	case *ast.ExprStmt, *ast.SendStmt, *ast.IncDecStmt, *ast.GoStmt, *ast.DeferStmt:
	case *ast.IfStmt:
		return s.Else == nil && slices.ContainsFunc(s.Body.List, func(s ast.Stmt) bool { return !told.MatchString(textOf(s)) })
	default:
		return false
	}
	return !told.MatchString(textOf(s))
}

// without returns the text of the file without the statement. The lines stay where they are.
func (s site) without(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, s.file))
	if err != nil {
		return nil, err
	}
	for i := s.from; i < s.to; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
	return text, nil
}
