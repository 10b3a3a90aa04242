package command

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// looksLikeURL reports whether arg is a URL, with or without its scheme, and not the name of a program.
func looksLikeURL(arg string) bool {
	host, _, _ := strings.Cut(arg, "/")
	_, port, hasPort := strings.Cut(host, ":")
	_, err := strconv.ParseUint(port, 10, 16)
	return strings.Contains(arg, "://") || hasPort && err == nil || strings.HasPrefix(arg, unixsocket.Scheme)
}

// withOrigins returns args with the origin behind --cors in the same argument: a flag that may stand alone takes no other.
func withOrigins(args []string) (all []string) {
	for i, arg := range args {
		before := max(i-1, 0)
		switch at, err := url.Parse(arg); {
		case slices.Contains(args[:i], "--"):
			return append(all, args[i:]...)
		case args[before] == "--cors" && (arg == "*" || err == nil && at.Host != "" && at.Path == ""):
			all[len(all)-1] += "=" + arg
		default:
			all = append(all, arg)
		}
	}
	return all
}

// isProgram reports whether arg is a program or the path of one, or a whole command line.
func isProgram(arg string) bool {
	if words := strings.Fields(arg); len(words) > 1 {
		arg = words[0]
	}
	_, err := exec.LookPath(arg)
	return err == nil || errors.Is(err, exec.ErrDot) || strings.HasPrefix(arg, "./") || filepath.IsAbs(arg) || runs(arg) != ""
}

// runs returns the program that runs a script, by the end of its name; "" for none.
func runs(script string) string {
	switch filepath.Ext(script) {
	case ".py":
		return "python"
	case ".js", ".mjs", ".cjs":
		return "node"
	}
	return ""
}

// ofCommand returns the words of the server's command that args mean: a quoted command line is several, a script needs its program.
func ofCommand(args []string) []string {
	if len(args) == 1 && len(strings.Fields(args[0])) > 1 && !isFile(args[0]) {
		return strings.Fields(args[0])
	}
	if program := runs(args[0]); program != "" {
		if info, err := os.Stat(args[0]); err != nil || info.Mode()&0o111 == 0 {
			return append([]string{program}, args...)
		}
	}
	return args
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// missingDash says how a server's command is written that args are, behind flags of cmd itself.
func missingDash(cmd *cobra.Command, flags, args []string) error {
	if tool := toolIn(args); tool != "" && len(flags) == 0 {
		return errors.New(asBefore(cmd.Root(), tool))
	}
	what := "write -- before the server's command"
	if words := ofCommand(args); len(words) > len(args) && runs(args[0]) == "" {
		what += ", and no quotes around it"
	}
	return fmt.Errorf("%s: %s", what, strings.Join(slices.DeleteFunc([]string{cmd.CommandPath(), config.AsTyped(flags), "--", config.AsTyped(ofCommand(args))}, isEmpty), " "))
}

// asBefore says how the line of another tool is run.
func asBefore(root *cobra.Command, tool string) string {
	return "this is the line of another tool; write " + root.CommandPath() + " as " + tool + " …"
}

func isEmpty(s string) bool { return s == "" }

// A noCommandError says that a server is named, and no command of dragoman before it.
type noCommandError struct {
	text  string // for a terminal
	stdio string // for the user of a client that starts it
}

func (e *noCommandError) Error() string { return e.text }

// twoWays says which commands put dragoman in front of the server that args name, a URL or a command.
func twoWays(root *cobra.Command, args []string) error {
	if tool := toolIn(args); tool != "" {
		text := asBefore(root, tool)
		return &noCommandError{text: text, stdio: text}
	}
	server, what := "-- "+config.AsTyped(ofCommand(args)), "stdio -- before the server's command"
	if looksLikeURL(args[0]) {
		server, what = config.AsTyped(args), "stdio before the URL"
		if !strings.Contains(args[0], ":/") {
			server = "http://" + server
		}
	}
	return &noCommandError{
		text: fmt.Sprintf("write serve if clients connect over HTTP, or stdio if a client starts dragoman:\n"+
			"  %[1]s serve %[2]s\n  %[1]s stdio %[2]s", root.CommandPath(), server),
		stdio: fmt.Sprintf("write %s: %s stdio %s", what, root.CommandPath(), server),
	}
}

// rootArguments refuses the arguments of dragoman without a command, and says what may be meant.
func rootArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && looksLikeURL(args[0]) {
		return twoWays(cmd, args)
	}
	if len(args) > 0 && toolIn(args) != "" {
		return twoWays(cmd, args)
	}
	err := onlySubcommands(cmd, args)
	if err != nil && !strings.Contains(err.Error(), "did you mean") && (isProgram(args[0]) || cmd.ArgsLenAtDash() == 0) {
		return twoWays(cmd, args)
	}
	return err
}

// hostLike matches a host name, with a path or without.
var hostLike = pattern.Later(`^([A-Za-z0-9-]+\.)+[A-Za-z]{2,}(/\S*)?$`)

// configurations are the ends of the names of files with configurations.
var configurations = []string{".json", ".yaml", ".yml", ".toml"}

// number matches what can be a port.
var number = pattern.Later(`^[0-9]{1,5}$`)

// notAServer says what is wrong with an argument that is neither a URL nor behind --.
func notAServer(cmd *cobra.Command, args []string) error {
	arg := args[0]
	scheme, rest, hasScheme := strings.Cut(arg, ":")
	switch ext := filepath.Ext(arg); {
	case arg == "":
		return errors.New("an argument is empty: is a variable of the shell not set?")
	case arg == "true" || arg == "false":
		return fmt.Errorf("%q is not a server; a flag has its value behind =, as in --inspect=%[1]s", arg)
	case number().MatchString(arg):
		text := fmt.Sprintf("%s is a port; for a server there: %s http://127.0.0.1:%[1]s/mcp", arg, cmd.CommandPath())
		if cmd.Flags().Lookup("listen") != nil {
			text += "; for clients to connect there: --listen 127.0.0.1:" + arg
		}
		return errors.New(text)
	case arg == "help":
		return fmt.Errorf("%q is not a server; for help: %s --help", arg, cmd.CommandPath())
	case hasScheme && (scheme == "http" || scheme == "https"):
		return fmt.Errorf("%q is not a URL; did you mean %s://%s?", config.AsTyped(args[:1]), scheme, config.AsTyped([]string{strings.TrimLeft(rest, "/")}))
	case isFile(arg) && config.OfClient(arg):
		return fmt.Errorf("%s is the configuration of a client; for a server in it: %s --config %s", arg, cmd.CommandPath(), config.AsTyped(args[:1]))
	case slices.Contains(configurations, ext) && !isFile(arg):
		return fmt.Errorf("%s is not a server, and there is no such file", config.AsTyped(args[:1]))
	case slices.Contains(configurations, ext):
		return fmt.Errorf("%s is a file, not a server; if it is dragoman's configuration: %s --config %s", arg, cmd.CommandPath(), config.AsTyped(args[:1]))
	case len(args) == 1 && hostLike().MatchString(arg) && !isProgram(arg) && !isFile(arg):
		return fmt.Errorf("%q is not a URL; did you mean https://%s?", arg, arg)
	}
	return missingDash(cmd, nil, args)
}

// needsServer reports whether a command does nothing without a server.
func needsServer(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "(URL | -- COMMAND") }

// noServer says how a server is named for cmd. file is the configuration, "" for none.
func noServer(cmd *cobra.Command, file string) error {
	path := cmd.CommandPath()
	text := "no server is named: write " + path + " URL, or " + path + " -- COMMAND [ARG...]"
	if cmd.Flags().Lookup("adapters") != nil {
		text = "no server is named: write " + path + " URL, " + path + " -- COMMAND [ARG...], or " + path + " --adapters DIR"
	}
	if file != "" {
		text += "; or set upstream.url in " + file
	}
	return &exitError{exitUsage, errors.New(text)}
}
