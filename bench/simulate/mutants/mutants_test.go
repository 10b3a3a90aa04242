package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// TestEveryPatchApplies tells of a patch whose code has changed: that commit deletes the patch, or moves it.
func TestEveryPatchApplies(t *testing.T) {
	needGit(t)
	all, err := patches(".", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, err := p.apply("../../.."); err != nil {
			t.Error(err)
		}
	}
}

func TestPatchesSayWhatTheyAre(t *testing.T) {
	all, err := patches(".", nil)
	if err != nil {
		t.Fatal(err)
	}
	mended := regexp.MustCompile(`^[0-9a-f]{8} \S`)
	reserve := 0
	for _, p := range all {
		for _, name := range []string{"Mended", "Seen", "Room", "World", "Test"} {
			if p.head[name] == "" {
				t.Errorf("%s: the head has no %s", p.name, name)
			}
		}
		if !mended.MatchString(p.head["Mended"]) {
			t.Errorf("%s: Mended is no commit with its subject: %q", p.name, p.head["Mended"])
		}
		if dir := filepath.ToSlash(filepath.Dir(p.file)); p.head["Room"] != dir {
			t.Errorf("%s: Room is %q, and the file is in %s", p.name, p.head["Room"], dir)
		}
		diff := "\n" + p.diff
		hunks, lines := strings.Count(diff, "\n@@"), strings.Count(diff, "\n-")+strings.Count(diff, "\n+")-2
		if strings.Count(diff, "\n--- ") != 1 {
			t.Errorf("%s changes more than one file, or none", p.name)
		}
		if hunks != 1 || lines > 10 {
			t.Errorf("%s: %d hunks change %d lines, want one of at most 10", p.name, hunks, lines)
		}
		if p.head["Reserve"] != "" {
			reserve++
		}
	}
	if n := len(all) - reserve; n != 40 {
		t.Errorf("%d patches and %d in reserve, want 40 that are not in reserve", n, reserve)
	}
}

const standin = "./" + here + "/testdata/standin"

func TestFaultsAreFoundOrNot(t *testing.T) {
	needGit(t)
	for name, c := range map[string]struct {
		o    options
		want []string // in the output and the error
		fail bool
	}{
		"found":     {options{names: []string{"share-of-all"}, want: 1}, []string{"share-of-all", "found after ", "by a client leaves room", "seed 7", "1 of 1 found\n"}, false},
		"not found": {options{names: []string{"line-in-two"}, want: 1}, []string{"not found: A client or a server on stdio", "0 of 1 found", "less than 100 %"}, true},
		"enough":    {options{names: []string{"share-of-all", "line-in-two"}, want: 0.5}, []string{"1 of 2 found"}, false},
		"check":     {options{names: []string{"share-of-all"}, check: true}, []string{"share-of-all", "applies and compiles"}, false},
		"unknown":   {options{names: []string{"no-such-fault"}}, []string{"0 are patches"}, true},
		"generated": {options{generate: 4, seed: 1, under: "proxy/bytes/quota"}, []string{"proxy/bytes/quota/quota.go:", "killed after ", "proxy/bytes/quota  4"}, false},
		"nowhere":   {options{generate: 1, under: "proxy/nowhere"}, []string{"uses no package under"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.simulator = standin
			var out strings.Builder
			err := run(t.Context(), &c.o, &out)
			if (err != nil) != c.fail {
				t.Errorf("the error is %v", err)
			}
			if err != nil {
				out.WriteString(err.Error())
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

func TestWhatIsInterruptedLeavesNoFolder(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, o := range map[string]options{
		"patches":   {names: []string{"share-of-all", "line-in-two"}},
		"generated": {generate: 4, under: "proxy/bytes/quota"},
	} {
		interrupted := errors.New("interrupted")
		ctx, interrupt := context.WithCancelCause(t.Context())
		interrupt(interrupted)
		o.simulator = standin
		if err := run(ctx, &o, io.Discard); !errors.Is(err, interrupted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestSeedThatBreaksTheTreeTooFindsNothing(t *testing.T) {
	const file = "proxy/bytes/quota/quota.go"
	text, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Replace(text, []byte("s.taken++"), nil, 1)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	tree := &tree{root: root, dir: t.TempDir(), simulator: standin, each: time.Second}
	if v, err := tree.play(t.Context(), file, broken); v.law != "a client leaves room" || err != nil {
		t.Errorf("with a sound tree: %q, %v", v.law, err)
	}
	tree.sound = filepath.Join(tree.dir, "as broken")
	if err := errors.Join(tree.put(file, broken), tree.build(t.Context(), "-o", tree.sound, standin)); err != nil {
		t.Fatal(err)
	}
	if v, err := tree.play(t.Context(), file, broken); v.law != "" || err != nil {
		t.Errorf("with a tree that breaks the law too: %q, %v", v.law, err)
	}
}

func TestWhichStatementsCanBeDeleted(t *testing.T) {
	const text = `package p

func f(c chan int, m map[int]int) {
	mu.Lock()
	defer mu.Unlock()
	x := 1
	_ = x
	x = 2
	m[1] += x
	x++
	go f(c, m)
	defer close(c)
	c <- 1
	if x > 1 {
		x = 3
	}
	if x > 2 {
		l.Info("this", zap.Int("x", x))
	}
	if x > 3 {
		x = 4
	} else {
		x = 5
	}
	switch x {
	case 6:
		delete(m, 1)
	}
	for range x {
		counter.Inc()
		m[7] = 8
	}
	return
}
`
	all, err := sitesIn("p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		_, what, _ := strings.Cut(s.String(), ": ")
		got = append(got, what)
	}
	if at := all[0].String(); at != "p.go:8: x = 2" {
		t.Errorf("the first one is at %q", at)
	}
	slices.Sort(got)
	want := []string{"c <- 1", "defer close(c)", "delete(m, 1)", "go f(c, m)", "if x > 1 {", "m[1] += x", "m[7] = 8", "x = 2", "x = 3", "x = 4", "x = 5", "x++"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
