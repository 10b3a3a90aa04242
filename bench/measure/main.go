// Measure measures dragoman, and tries it under load. bench/README.md says what each subcommand measures. Run it from the root of the
// module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/bench/measure/capper"
	"github.com/dragoman-proxy/dragoman/bench/measure/cost"
	"github.com/dragoman-proxy/dragoman/bench/measure/fuzz"
	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/bench/measure/soak"
	"github.com/dragoman-proxy/dragoman/translate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "measure", Short: "Measure dragoman, and try it under load", SilenceUsage: true}
	root.AddCommand(compare(), latency(), growth(), beside(), soaking(), proving(), kept(), fuzzing(), serve())
	if root.ExecuteContext(ctx) != nil {
		os.Exit(1)
	}
}

// command is a subcommand.
func command(use, short string, args cobra.PositionalArgs, run func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) }}
}

// onLinux is for subcommands that read what processes use.
func onLinux(c *cobra.Command) *cobra.Command {
	c.PreRunE = func(*cobra.Command, []string) error {
		if runtime.GOOS != "linux" {
			return fmt.Errorf("needs /proc and the process clocks of Linux, which %s does not have", runtime.GOOS)
		}
		return nil
	}
	return c
}

const binaryUsage = "the command to measure (default: build it)"

func compare() *cobra.Command {
	p := cost.Compare{Out: os.Stdout}
	c := onLinux(command("compare [PART...]", "End to end, beside other proxies: "+strings.Join(cost.Parts(), ", ")+"; by default all but the last two, store needs redis-server",
		cobra.OnlyValidArgs, func(ctx context.Context, args []string) error { return p.Run(ctx, args) }))
	c.ValidArgs = cost.Parts()
	c.Flags().IntVar(&p.Rounds, "rounds", 5, "how often each way has its turn")
	c.Flags().DurationVar(&p.Turn, "turn", 400*time.Millisecond, "length of a turn, for each kind of call and number of connections")
	c.Flags().IntVar(&p.Leaves, "leaves", 20, "how many clients leave a quiet call, for each way")
	c.Flags().IntVar(&p.Idle, "idle", 9000, "how many clients of each transport stay connected and say nothing")
	c.Flags().IntVar(&p.Users, "users", 1000, "how many clients without a session have something kept for them")
	c.Flags().StringVar(&p.Binary, "dragoman", "", binaryUsage)
	return c
}

// timed is a subcommand with the flags of latency.
func timed(use, short string, run func(cost.Latency, context.Context) error) (*cobra.Command, *cost.Latency) {
	p := new(cost.Latency)
	c := onLinux(command(use, short, cobra.NoArgs, func(ctx context.Context, _ []string) error { return run(*p, ctx) }))
	c.Flags().DurationVar(&p.Slice, "slice", time.Second, "how long each way is measured with each kind of call")
	c.Flags().StringVar(&p.Write, "write", "", "file in which the table replaces what is between the markers (default: stdout)")
	c.Flags().BoolVar(&p.Quick, "quick", false, "try everything that needs no network in a few seconds; the numbers mean nothing")
	c.Flags().StringVar(&p.Packages, "packages", "", "folder for the npm packages of other proxies, kept for the next run; none to leave them out (default: a temporary one)")
	c.Flags().StringVar(&p.Binary, "dragoman", "", binaryUsage)
	return c, p
}

func latency() *cobra.Command {
	c, p := timed("latency", "What dragoman adds to a call, for each pair of revisions, beside other proxies, and at fixed rates", cost.Latency.Run)
	c.Flags().StringVar(&p.Out, "out", "docs/images", "folder for the pictures")
	return c
}

func growth() *cobra.Command {
	c, _ := timed("growth", "How costs grow with tools, bytes, connections and adapters", cost.Latency.Growth)
	return c
}

func beside() *cobra.Command {
	c, _ := timed("beside", "The same small worlds with other proxies, for the table in the README: about five minutes", cost.Latency.Beside)
	return c
}

func soaking() *cobra.Command {
	var p soak.Soak
	c := onLinux(command("soak", "Memory, goroutines, files and child processes under load from misbehaving peers", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		p.Pipe = []string{self, "serve", "misbehaving"}
		return p.Run(ctx)
	}))
	c.Flags().DurationVar(&p.Time, "time", 10*time.Minute, "how long")
	c.Flags().DurationVar(&p.Every, "every", 5*time.Second, "time between two looks")
	c.Flags().IntVar(&p.Scripts, "scripts", 12, "scripts of the simulator that are played at the same time with each dragoman, each with one to four clients")
	c.Flags().StringVar(&p.Only, "only", "", "only what has this in its name")
	c.Flags().StringVar(&p.Binary, "dragoman", "", binaryUsage)
	return c
}

func proving() *cobra.Command {
	p := replicas.Proof{Out: os.Stdout}
	c := command("replicas", "Published clients at replicas that share a store, while replicas are killed and the store is emptied", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		dir, err := os.MkdirTemp("", "replicas")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if p.Dir = filepath.Join(dir, "services"); p.Binary == "" {
			if p.Binary, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
				return err
			}
		}
		results, err := p.Run(ctx)
		fmt.Println(results)
		return err
	})
	c.Flags().DurationVar(&p.Time, "time", 5*time.Minute, "how long")
	c.Flags().DurationVar(&p.KillEvery, "kill", 10*time.Second, "time between two deaths of replicas")
	c.Flags().IntVar(&p.Clients, "clients", 2, "clients of each revision at each of the two services")
	c.Flags().StringVar(&p.Binary, "dragoman", "", binaryUsage)
	return c
}

func kept() *cobra.Command {
	p := capper.Measurement{Out: os.Stdout}
	c := command("kept", "What is kept of recorded results that are cut to a budget of tokens", cobra.NoArgs, func(context.Context, []string) error { return p.Run() })
	c.Flags().StringVar(&p.Set, "set", "tune", "answers to measure: tune, held or all")
	c.Flags().IntSliceVar(&p.Budgets, "budgets", []int{200, 500, 2000, 8000}, "budgets in tokens")
	c.Flags().StringVar(&p.Only, "only", "", "only answers whose name has this in it")
	c.Flags().StringVar(&p.Folder, "dir", "", "measure the answers in this folder, written as those in bench/measure/capper/testdata")
	c.Flags().IntVar(&p.Lost, "lost", 0, "print the facts of each answer that are lost at this budget")
	return c
}

func fuzzing() *cobra.Command {
	var p fuzz.All
	c := command("fuzz PACKAGE...", "Every fuzz target of packages", cobra.MinimumNArgs(1), func(_ context.Context, args []string) error { return p.Run(args) })
	c.Flags().DurationVar(&p.Total, "total", 5*time.Minute, "how long to fuzz all targets together, building not counted")
	c.Flags().StringVar(&p.Built, "built", "", "use test binaries that were built before, FOLDER/PACKAGE/test: nothing is compiled, and coverage does not guide the search")
	return c
}

// serve lets this command be the other processes of a measurement.
func serve() *cobra.Command {
	var r cost.Role
	c := command("serve ROLE [ARGUMENT]", "", cobra.RangeArgs(1, 2), func(ctx context.Context, args []string) error {
		if args[0] == "misbehaving" {
			return soak.ServePipe(os.Stdin, os.Stdout, os.Stderr)
		}
		r.Name, r.Argument = args[0], strings.Join(args[1:], "")
		return r.Serve(ctx)
	})
	c.Hidden = true
	c.Flags().StringVar(&r.Revision, "revision", translate.Latest().Name, "of the server")
	c.Flags().IntVar(&r.Tools, "tools", 50, "of the server: 1, 50, 500 or 5000")
	return c
}
