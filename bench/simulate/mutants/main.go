// Mutants puts faults into dragoman and sees whether the simulator finds them. The files NAME.patch beside it are faults that the
// history has mended, each one hunk of at most ten changed lines; -generate makes others by deleting a statement. Nothing in the
// checkout is changed: a fault is a build overlay.
//
//	go run ./bench/simulate/mutants                      # the 40 patches that are not in reserve, 60 s each
//	go run ./bench/simulate/mutants ping-without-stream  # those that are named
//	go run ./bench/simulate/mutants -check               # only whether all apply and compile
//	go run ./bench/simulate/mutants -generate 200 -seed 1 -under proxy/pipes,proxy/session
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// rooms are the folders that messages pass, where statements are deleted.
const rooms = "proxy/session,proxy/bridge,proxy/origin,proxy/pipes,proxy/protocol,proxy/transport,proxy/replicas,proxy/store,proxy/features,proxy/bytes"

// options are what the command line says.
type options struct {
	simulator, under string
	each             time.Duration
	check            bool
	want             float64
	generate         int
	seed             uint64
	names            []string
}

func main() {
	var o options
	flag.StringVar(&o.simulator, "simulator", "./bench/simulate", "the `PACKAGE` of the simulator")
	flag.DurationVar(&o.each, "each", 0, "how long to look for each fault (default 60s, and 20s with -generate)")
	flag.BoolVar(&o.check, "check", false, "only see whether the patches apply, and compile")
	flag.Float64Var(&o.want, "want", 0, "the share of faults to be found (default 0.95, and any with -generate); less is exit code 1")
	flag.IntVar(&o.generate, "generate", 0, "delete `N` statements, one after the other, instead of using the patches")
	flag.Uint64Var(&o.seed, "seed", 1, "which statements -generate draws")
	flag.StringVar(&o.under, "under", rooms, "the `FOLDERS` in which -generate draws, with commas between them")
	flag.Parse()
	o.names = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run ends early, without its folder, when ctx does.
func run(ctx context.Context, o *options, out io.Writer) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &tree{root: filepath.Dir(strings.TrimSpace(string(mod))), dir: dir, simulator: o.simulator}
	if o.generate > 0 {
		t.each = cmp.Or(o.each, 20*time.Second)
		return generated(ctx, t, o, out)
	}
	t.each = cmp.Or(o.each, time.Minute)
	return mended(ctx, t, o, out)
}

// mended looks for the faults of the patches.
func mended(ctx context.Context, t *tree, o *options, out io.Writer) error {
	all, err := patches(filepath.Join(t.root, here), o.names)
	if err != nil {
		return err
	}
	if !o.check {
		if len(o.names) == 0 {
			all = slices.DeleteFunc(all, func(p *patch) bool { return p.head["Reserve"] != "" })
		}
	}
	found, broken := 0, 0
	for _, p := range all {
		var v verdict
		text, err := p.apply(t.root)
		switch {
		case err != nil:
		case o.check:
			if err = t.put(p.file, text); err == nil {
				err = t.build(ctx, "./"+filepath.Dir(p.file))
			}
		default:
			v, err = t.play(ctx, p.file, text)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			broken++
			fmt.Fprintf(out, "%-32s broken: %v\n", p.name, err)
		case o.check:
			fmt.Fprintf(out, "%-32s applies and compiles\n", p.name)
		case v.law != "":
			found++
			fmt.Fprintf(out, "%-32s found after %-8s by %-30s seed %s\n", p.name, v.after, v.law, v.seed)
		default:
			fmt.Fprintf(out, "%-32s not found: %s\n", p.name, p.head["World"])
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d patches do not apply, compile or run: mend or remove them", broken, len(all))
	}
	if o.check {
		return nil
	}
	fmt.Fprintf(out, "%d of %d found\n", found, len(all))
	return enough(found, len(all), cmp.Or(o.want, 0.95))
}

// enough returns an error if less than the wanted share was found.
func enough(found, all int, want float64) error {
	if float64(found) < want*float64(all) {
		return fmt.Errorf("%d of %d found, which is less than %.0f %%", found, all, 100*want)
	}
	return nil
}
