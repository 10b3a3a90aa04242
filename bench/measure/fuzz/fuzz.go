// Package fuzz runs every fuzz target of packages.
package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// patience is the time limit for what the total does not count: running a corpus, and ending.
const patience = 5 * time.Minute

// All says how long all targets are fuzzed together, however many they are. The share of a target begins when its
// corpus has been read and run.
type All struct {
	Total time.Duration
	Built string // a folder with test binaries that were built before, PACKAGE/test; "" to build them
}

// Run fuzzes the targets of packages.
func (a All) Run(packages []string) error {
	binaries, err := list(packages)
	if err != nil {
		return err
	}
	if a.Built != "" {
		for i, b := range binaries {
			binaries[i].file = filepath.Join(a.Built, b.path, "test")
		}
	} else {
		dir, err := os.MkdirTemp("", "fuzz-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := build(dir, binaries); err != nil {
			return err
		}
	}
	var targets []target
	for _, b := range binaries {
		found, err := b.targets()
		if err != nil {
			return err
		}
		targets = append(targets, found...)
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz target in %v", packages)
	}
	// One worker for each target, and as many targets at a time as there are processors.
	share := a.Total * time.Duration(atATime()) / time.Duration(len(targets))
	fmt.Printf("%d targets, %s each, %d at a time\n", len(targets), share.Round(time.Millisecond), atATime())
	return inParallel(targets, func(t target) error {
		fuzzed, err := t.run(share, a.Built == "")
		if err == nil {
			fmt.Printf("fuzz %s %s: %d inputs\n", t.path, t.name, fuzzed)
		}
		return err
	})
}

// binary is the test binary of a package.
type binary struct{ path, dir, file, cache string }

type target struct {
	binary
	name string
}

// list lists the packages that have fuzz targets.
func list(packages []string) ([]binary, error) {
	gocache, err := goCommand("env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	listed, err := goCommand(append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}{{range .TestGoFiles}}\t{{.}}{{end}}{{range .XTestGoFiles}}\t{{.}}{{end}}"}, packages...)...)
	if err != nil {
		return nil, err
	}
	var all []binary
	for line := range strings.Lines(listed) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		has, err := haveTargets(f[1], f[2:])
		if err != nil {
			return nil, err
		}
		if has {
			all = append(all, binary{path: f[0], dir: f[1], cache: filepath.Join(strings.TrimSpace(gocache), "fuzz", f[0])})
		}
	}
	return all, nil
}

// build builds the binaries into a folder, with what lets coverage guide the search.
func build(into string, binaries []binary) error {
	for i := range binaries {
		binaries[i].file = filepath.Join(into, fmt.Sprintf("%d.test.exe", i))
	}
	// A linker uses one processor only.
	return inParallel(binaries, func(b binary) error {
		_, err := goCommand(slices.Concat([]string{"test", "-c", "-o", b.file, "-vet=off", "-ldflags=-w"}, instrumented, []string{b.path})...)
		return err
	})
}

// instrumented are the packages whose coverage guides the search: those of this module, and the parsers that they call.
// The flag -fuzz would also recompile the standard library, which takes longer than everything else.
var instrumented = []string{
	"-gcflags=github.com/dragoman-proxy/...=-d=libfuzzer",
	"-gcflags=github.com/tidwall/...=-d=libfuzzer",
	"-gcflags=gopkg.in/...=-d=libfuzzer",
}

// haveTargets reports whether one of the files declares a fuzz target.
func haveTargets(dir string, files []string) (bool, error) {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("\nfunc Fuzz")) {
			return true, nil
		}
	}
	return false, nil
}

func goCommand(args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}

// targets lists the fuzz targets of the binary.
func (b binary) targets() (found []target, err error) {
	cmd := exec.Command(b.file, "-test.list", "^Fuzz")
	cmd.Dir = b.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the targets of %s: %w\n%s", b.path, err, out)
	}
	for name := range strings.Lines(string(out)) {
		found = append(found, target{b, strings.TrimSpace(name)})
	}
	return found, nil
}

// run fuzzes a target for its share, and returns how many inputs were tried that
// its corpus does not have. It returns an error if there were none.
func (t target) run(share time.Duration, guided bool) (fuzzed int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), share+patience)
	defer cancel()
	// A minute spent on shrinking one input is a minute not spent on others.
	cmd := exec.CommandContext(ctx, t.file, "-test.paniconexit0", "-test.run=^$", "-test.fuzz=^"+t.name+"$",
		"-test.parallel=1", "-test.fuzzminimizetime=1s", "-test.fuzzcachedir="+t.cache)
	cmd.Dir = t.dir
	cmd.WaitDelay = 10 * time.Second
	// The run is ended by a signal: -test.fuzztime would count the corpus, and
	// reports a failure if it ends while an input is running (https://go.dev/issue/75804).
	out := &output{begin: func() {
		time.AfterFunc(share, func() { _ = cmd.Process.Signal(os.Interrupt) })
	}}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	switch {
	case err != nil:
	case guided && out.blind():
		err = errors.New("was built without coverage instrumentation")
	case out.fuzzed() == 0:
		err = errors.New("was not fuzzed")
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", t.path, t.name, err, out.text.Bytes())
	}
	return out.fuzzed(), err
}

var (
	corpusDone = regexp.MustCompile(`(\d+)/\d+ completed, now fuzzing with`)
	executed   = regexp.MustCompile(`, execs: (\d+) \(`)
)

// output parses the output of a target.
type output struct {
	begin            func() // called when the corpus is done
	begun            bool
	text             bytes.Buffer
	seen             int // bytes of text in lines that have been read
	corpus, executed int // inputs
}

func (o *output) Write(p []byte) (int, error) {
	o.text.Write(p)
	for {
		line, _, whole := bytes.Cut(o.text.Bytes()[o.seen:], []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.seen += len(line) + 1
		if m := corpusDone.FindSubmatch(line); m != nil && !o.begun {
			o.begun = true
			o.corpus, _ = strconv.Atoi(string(m[1]))
			o.begin()
		}
		if m := executed.FindSubmatch(line); m != nil {
			o.executed, _ = strconv.Atoi(string(m[1]))
		}
	}
}

// fuzzed returns the number of inputs beyond the corpus.
func (o *output) fuzzed() int {
	if !o.begun {
		return 0
	}
	return max(0, o.executed-o.corpus)
}

// blind reports whether the search has no coverage to guide it.
func (o *output) blind() bool {
	return bytes.Contains(o.text.Bytes(), []byte("not built with coverage instrumentation"))
}

// inParallel calls do for each item, as many at a time as there are processors. After an error it begins no more.
func inParallel[T any](items []T, do func(T) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(atATime())
	for _, item := range items {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			return do(item)
		})
	}
	return group.Wait()
}

func atATime() int { return runtime.GOMAXPROCS(0) }
