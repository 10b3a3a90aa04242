// Mutants puts faults into dragoman and sees whether the simulator finds them. The files NAME.patch beside it are faults that the
// history has mended, each one hunk of at most ten changed lines; -generate makes others by deleting a statement. Nothing in the
// checkout is changed: a fault is a build overlay.
//
//	go run ./bench/simulate/mutants                      # all patches, 60 s each
//	go run ./bench/simulate/mutants ping-without-stream  # those that are named
//	go run ./bench/simulate/mutants -check               # only whether all apply and compile
//	go run ./bench/simulate/mutants -generate 200 -seed 1 -under proxy/pipes,proxy/session
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rooms are the folders that messages pass, where statements are deleted.
const rooms = "proxy/session,proxy/bridge,proxy/origin,proxy/pipes,proxy/protocol,proxy/transport,proxy/replicas,proxy/store,proxy/features,proxy/bytes"

// options are what the command line says.
type options struct {
	simulator string
	each      time.Duration
	check     bool
	want      float64
	generate  int
	seed      uint64
	under     string
	names     []string
}

func main() {
	var o options
	flag.StringVar(&o.simulator, "simulator", "./bench/simulate", "the `PACKAGE` of the simulator")
	flag.DurationVar(&o.each, "each", 0, "how long to look for each fault (default 60s, and 20s with -generate)")
	flag.BoolVar(&o.check, "check", false, "only see whether the patches apply, and compile")
	flag.Float64Var(&o.want, "want", 0.95, "the share of faults to be found; less is exit code 1")
	flag.IntVar(&o.generate, "generate", 0, "delete `N` statements, one after the other, instead of using the patches; then -want counts only if it is given")
	flag.Uint64Var(&o.seed, "seed", 1, "which statements -generate draws")
	flag.StringVar(&o.under, "under", rooms, "the `FOLDERS` in which -generate draws, with commas between them")
	flag.Parse()
	o.names = flag.Args()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.generate > 0 && !given["want"] {
		o.want = 0
	}
	if err := run(&o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(o *options, out io.Writer) error {
	root, err := rootOf()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &tree{root: root, dir: dir, simulator: o.simulator}
	if o.generate > 0 {
		return generated(t, o, out)
	}
	return mended(t, o, out)
}

// rootOf returns the folder of go.mod.
func rootOf() (string, error) {
	at, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(at))), nil
}

// mended looks for the faults of the patches.
func mended(t *tree, o *options, out io.Writer) error {
	all, err := patches(filepath.Join(t.root, here), o.names)
	if err != nil {
		return err
	}
	if !o.check {
		if err := t.sound(or(o.each, time.Minute)); err != nil {
			return err
		}
	}
	found, broken := 0, 0
	for _, p := range all {
		text, err := p.apply(t.root)
		v := verdict{err: err}
		switch {
		case err != nil:
		case o.check:
			v.err = t.compile(p.file, text)
		default:
			v = t.try(p.file, text, or(o.each, time.Minute))
		}
		switch {
		case v.err != nil:
			broken++
			fmt.Fprintf(out, "%-32s broken: %v\n", p.name, v.err)
		case o.check:
			fmt.Fprintf(out, "%-32s applies and compiles\n", p.name)
		case v.law != "":
			found++
			fmt.Fprintf(out, "%-32s found after %-8s by %-30s seed %s\n", p.name, v.after, v.law, v.seed)
		default:
			fmt.Fprintf(out, "%-32s not found: %s\n", p.name, p.world)
		}
	}
	if !o.check {
		fmt.Fprintf(out, "%d of %d found\n", found, len(all))
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d patches do not apply, compile or run: mend or remove them", broken, len(all))
	}
	if !o.check && float64(found) < o.want*float64(len(all)) {
		return fmt.Errorf("less than %.0f %% of the faults were found", 100*o.want)
	}
	return nil
}

func or(given, otherwise time.Duration) time.Duration {
	if given > 0 {
		return given
	}
	return otherwise
}

// tail returns the last lines of what a command has written, for an error.
func tail(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-600):])
}
