package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

func asCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "as TOOL [ARGUMENT...]",
		Short: "Run the command line of another tool, such as mcp-remote",
		Long: "Run the command line of another tool, with its options, defaults and variables. A line on stderr says what dragoman's\n" +
			"own line is. The tools are " + strings.Join(comingfrom.Names(), ", ") + ";\n\"dragoman as TOOL --help\" shows the options of one, and what dragoman has for each.",
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		Example: "  dragoman as mcp-remote https://mcp.example.com/mcp 3334\n" +
			"  dragoman as supergateway --stdio 'npx -y @modelcontextprotocol/server-everything' --port 8000\n" +
			"  dragoman as mcp-proxy --port 8080 -- npx -y @modelcontextprotocol/server-everything",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains([]string{"help", "--help", "-h"}, args[0]) {
			return cmd.Help()
		}
		name := ""
		if len(args) > 0 {
			name = withoutVersion(args[0])
		}
		tool, err := comingfrom.Load(name, slices.Concat(args, os.Environ())...)
		if err == nil && tool == nil {
			err = notATool(cmd, args)
		}
		if err != nil {
			return &exitError{exitUsage, err}
		}
		err = runAs(cmd, tool, args[1:])
		switch exitCode(err) {
		case exitUsage:
			return &exitError{tool.Usage, fmt.Errorf("as %s: %w", tool.Name, err)}
		case exitServer:
			return &exitError{exitOther, err}
		}
		return err
	}
	return cmd
}

// notATool says what is wrong with the first of args, which is no tool, and what to write.
func notATool(cmd *cobra.Command, args []string) error {
	names := strings.Join(comingfrom.Names(), ", ")
	if len(args) == 0 {
		return fmt.Errorf("as: no tool is named: write %s TOOL and its arguments; the tools are %s", cmd.CommandPath(), names)
	}
	text := fmt.Sprintf("as: %q is not one of %s", args[0], names)
	switch tool, near := toolIn(args), setting.Nearest(strings.ToLower(args[0]), comingfrom.Names()); {
	case tool != "":
		text += "; write " + cmd.CommandPath() + " " + tool + " …"
	case strings.Contains(args[0], "mcp-proxy"):
		text += "; mcp-proxy is npm's, mcp-proxy-py Python's, and tbxark TBXark's"
	case comingfrom.Program(args[0]) != "":
		text += "; write " + comingfrom.Program(args[0])
	case near != "":
		text += "; did you mean " + near + "?"
	}
	return errors.New(text)
}

// runners are programs that run tools, with the words that may stand before a tool.
var runners = map[string][]string{"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "pnpm": {"dlx"}, "bun": {"x"}, "uv": {"tool", "run"}, "pipx": {"run"}}

// toolIn returns the tool that a line begins with or runs, as npx -y mcp-remote URL does; "" if there is none, or dragoman does not run
// its lines.
func toolIn(args []string) string {
	before, runs := runners[args[0]]
	for i, word := range args {
		name := withoutVersion(word)
		if name == "mcp-proxy" && strings.Contains("uvx pipx", args[0]) {
			name = "mcp-proxy-py"
		}
		tool, _ := comingfrom.Load(name, name)
		switch {
		case tool != nil && tool.Runs():
			return name
		case !runs, i > 0 && !strings.HasPrefix(word, "-") && !slices.Contains(before, word):
			return ""
		}
	}
	return ""
}

// withoutVersion returns mcp-remote for mcp-remote@latest.
func withoutVersion(tool string) string {
	name, _, _ := strings.Cut(tool, "@")
	return name
}

// runAs runs the line of dragoman for the arguments of a tool.
func runAs(cmd *cobra.Command, tool *comingfrom.Tool, args []string) error {
	own := args
	if at := slices.Index(args, "--"); at >= 0 {
		own = args[:at]
	}
	asks := func(flag string) bool {
		return slices.ContainsFunc(own, func(word string) bool { r := tool.Row(word); return r != nil && r.Theirs == flag })
	}
	switch {
	case asks("--help"):
		tool, err := comingfrom.Load(tool.Name)
		if err == nil {
			_, err = fmt.Fprint(cmd.OutOrStdout(), tool.Help())
		}
		return err
	case asks("--version"):
		err := printVersion(cmd)
		fmt.Fprintf(cmd.OutOrStdout(), "options of %s %s\n", tool.Title, tool.Version)
		return err
	}
	line, err := tool.Translate(args, os.LookupEnv)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	for _, ignored := range line.Ignored {
		fmt.Fprintf(stderr, "dragoman: as %s: no effect: %s\n", tool.Name, ignored)
	}
	for name, value := range line.Settings {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if err := startable(line); err != nil {
		return &exitError{tool.Missing, fmt.Errorf("as %s: the server's command cannot be started: %w", tool.Name, err)}
	}
	fmt.Fprintf(stderr, "dragoman: as %s: this is %s%s\n", tool.Name, line, reach(line))
	cmd.Root().SetArgs(line.Words())
	err = cmd.Root().ExecuteContext(cmd.Context())
	if err == nil || inTheirWords(err.Error(), line) == err.Error() {
		return err
	}
	return &exitError{exitCode(err), errors.New(inTheirWords(err.Error(), line))}
}

// startable returns why the server's command of a line cannot be started: there is no such program, seen from its folder, or no such folder.
func startable(line *comingfrom.Line) error {
	program := line.Program
	if program == "" {
		return nil
	}
	if at := slices.Index(line.Flags, "--cwd"); at >= 0 {
		dir := line.Flags[at+1]
		if _, err := os.Stat(dir); err != nil {
			return err
		}
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = dir + string(filepath.Separator) + program
		}
	}
	_, err := exec.LookPath(program)
	return err
}

// reach says that other machines can use the server of a line and need no key; "" if they cannot, or a file of settings may say more.
func reach(line *comingfrom.Line) string {
	at := slices.Index(line.Flags, "--listen")
	keys := os.Getenv("DRAGOMAN_AUTH_TOKENS") + os.Getenv("DRAGOMAN_AUTH_NAMED_TOKENS") + os.Getenv("DRAGOMAN_AUTH_TOKEN_FILE") + os.Getenv(config.EnvFile)
	if at < 0 || oauth.IsLoopback(line.Flags[at+1]) || keys != "" {
		return ""
	}
	return "; other machines can use the server without a key: DRAGOMAN_AUTH_TOKENS sets one"
}

// switchedOn matches the advice to switch a setting on in a file.
var switchedOn = pattern.Later(`set [a-z]+\.[a-z_.]+: true`)

// inTheirWords puts the options of a tool's line in the place of what dragoman has for them, where an error begins with it.
func inTheirWords(text string, line *comingfrom.Line) string {
	for ours, theirs := range line.From {
		form := regexp.QuoteMeta(ours)
		if name, is := strings.CutPrefix(ours, config.EnvPrefix); is { // or the path of the setting
			form = "(?i:" + ours + "|" + strings.ReplaceAll(name, "_", "[._]") + ")"
		}
		begins := regexp.MustCompile(`(?m)^(\s*)(?:command line: |\S+: )?` + form + `(?:\[\d+\]|\.[\w-]+)?(?:: [a-z_.]+: |: | )`)
		text = begins.ReplaceAllString(text, "${1}"+strings.ReplaceAll(theirs, "$", "$$")+": ")
	}
	text = switchedOn().ReplaceAllStringFunc(text, func(set string) string { // the line has no file
		path := strings.TrimSuffix(strings.TrimPrefix(set, "set "), ": true")
		return "set " + config.EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_")) + "=true"
	})
	text = strings.Replace(text, "choose one: --server NAME", "choose one: "+line.String()+" --server NAME", 1)
	listen := cmp.Or(line.From["--listen"], "--listen")
	if strings.Contains(text, "no such host") || strings.Contains(text, "cannot assign requested address") {
		listen = "--host" // these have another only if it is given
	}
	return strings.ReplaceAll(text, "--listen (listen)", listen)
}
