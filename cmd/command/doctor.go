package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/doctor"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [URL | -- COMMAND [ARG...]]",
		Short: "Find out why it does not work: configuration, machine, server, and what to do",
		Long: "Check, in this order, the configuration, this machine, the listeners, the way to the server (name, addresses,\n" +
			"TLS, HTTP, or the start of its command), the protocol, its lists, the same lists through dragoman, and the\n" +
			"other replicas; then print what to write into the usual clients' configurations. A check that needs one that\n" +
			"has failed is skipped. Nothing is changed, and no tool is called without --call. A check takes at most 10 s,\n" +
			"all of them 60 s. The exit code is 0 if nothing has failed, 2 for the configuration or this machine, 3 for the\n" +
			"server, 4 for dragoman itself.",
		Example: "  dragoman doctor --config dragoman.yaml\n" +
			"  dragoman doctor https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'\n" +
			"  dragoman doctor -- npx -y @modelcontextprotocol/server-everything\n" +
			`  dragoman doctor http://127.0.0.1:3000/mcp --call echo '{"message": "hello"}'`,
	}
	s := newSettings(cmd, listenFlags, upstreamFlags, signInFlags, adapterFlags, transformFlags)
	asJSON := cmd.Flags().Bool("json", false, "print the report as JSON")
	tool := cmd.Flags().String("call", "", "tool to call once, with the JSON object that follows as its arguments: --call TOOL '{…}'")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, arguments, err := toolArguments(cmd, args, *tool)
		if err != nil {
			return withCode(exitUsage, err)
		}
		s.taken = len(args) - len(server)
		o := doctor.Options{
			Version: version(), Program: ownName(), Sources: s.sources(server), Tool: *tool, Arguments: arguments,
			Start: proxy.Check, Probe: probeQuietly, Serve: serveQuietly,
		}
		return examine(cmd, *asJSON, o, doctor.Run)
	}
	return cmd
}

func configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file, the DRAGOMAN_ variables, and the files that they name",
		Long: "Report every mistake in a configuration file and in the DRAGOMAN_ variables, with its place: unknown and removed\n" +
			"settings, values of the wrong form, ${NAME} without a variable, files with secrets that are missing or can be read\n" +
			"by others, and whatever else serve would refuse to start with. The exit code is 0, or 2 if there are mistakes.",
		Example: "  dragoman config check dragoman.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	s := newSettings(cmd, serverFlag)
	asJSON := cmd.Flags().Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && s.file != "" {
			return withCode(exitUsage, fmt.Errorf("two files are given, %s and --config %s: keep one", args[0], s.file))
		}
		if len(args) == 1 {
			s.file = atHome(args[0])
		}
		return examine(cmd, *asJSON, doctor.Options{Sources: s.sources(nil), Start: proxy.Check}, doctor.CheckConfiguration)
	}
	return cmd
}

// examine runs an examination and prints its lines, or the report as JSON.
func examine(cmd *cobra.Command, asJSON bool, o doctor.Options, run func(context.Context, doctor.Options) *doctor.Report) error {
	out := cmd.OutOrStdout()
	lines := &doctor.Printer{Out: out}
	if !asJSON {
		o.Show = lines.Print
	}
	r := run(cmd.Context(), o)
	lines.End()
	if asJSON {
		if err := printJSON(out, r); err != nil {
			return err
		}
	}
	if r.Exit != doctor.ExitFine {
		return &exitError{r.Exit, errors.New(r.Summary())}
	}
	if asJSON {
		return nil
	}
	_, err := fmt.Fprintln(out, r.Summary())
	return err
}

// toolArguments returns args without the JSON object for --call, and this object. It is the argument that begins with { before --.
func toolArguments(cmd *cobra.Command, args []string, tool string) (server []string, arguments string, err error) {
	arguments = "{}"
	before := len(args)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before = dash
	}
	for i, arg := range args {
		if tool != "" && i < before && strings.HasPrefix(strings.TrimSpace(arg), "{") {
			arguments = arg
			if json.Valid([]byte(arg)) {
				continue
			}
			err = fmt.Errorf("--call %s: what follows is not a JSON object; write it in single quotes, such as '{\"message\": \"hello\"}'", tool)
		}
		if name, _, pair := strings.Cut(arg, "="); tool != "" && i < before && pair && !looksLikeURL(arg) {
			err = fmt.Errorf("--call %s takes the tool's arguments as one JSON object: '{%q: …}'", tool, name)
		}
		server = append(server, arg)
	}
	return server, arguments, err
}

// ownName returns how clients start this program: its name if it is in PATH, its path otherwise.
func ownName() string {
	own, err := os.Executable()
	if err != nil {
		return "dragoman"
	}
	if found, err := exec.LookPath("dragoman"); err == nil {
		a, errA := os.Stat(found)
		if b, errB := os.Stat(own); errA == nil && errB == nil && os.SameFile(a, b) {
			return "dragoman"
		}
	}
	return own
}

// probeQuietly reports what clients get of the server, without a log.
func probeQuietly(ctx context.Context, cfg config.Config) (*probe.Report, error) {
	return proxy.Probe(ctx, cfg, probe.AllCapabilities(), zap.NewNop())
}

// serveQuietly serves clients at ln until ctx ends, without a log.
func serveQuietly(ctx context.Context, cfg config.Config, ln net.Listener) error {
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		ln.Close()
		return err
	}
	return srv.Serve(ctx, ln)
}
