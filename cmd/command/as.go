package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func asCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "as TOOL [ARGUMENT...]",
		Short: "Run the command line of another tool, such as mcp-remote",
		Long: "Run the command line of another tool, with its options, defaults and variables. A line on stderr says what dragoman's\n" +
			"own line is. The tools are " + strings.Join(comingfrom.Names(), ", ") + ";\n\"dragoman as TOOL --help\" shows the options of one, and what dragoman has for each.",
		DisableFlagParsing: true,
		Example: "  dragoman as mcp-remote https://mcp.example.com/mcp 3334\n" +
			"  dragoman as supergateway --stdio 'npx -y @modelcontextprotocol/server-everything' --port 8000\n" +
			"  dragoman as mcp-proxy --port 8080 -- npx -y @modelcontextprotocol/server-everything",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Contains([]string{"help", "--help", "-h"}, args[0]) {
			return cmd.Help()
		}
		name, _, _ := strings.Cut(args[0], "@") // of mcp-remote@latest
		tool, err := comingfrom.Load(name, slices.Concat(args, os.Environ())...)
		if err == nil && tool == nil {
			err = fmt.Errorf("as: %q is not one of %s", args[0], strings.Join(comingfrom.Names(), ", "))
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
	fmt.Fprintf(stderr, "dragoman: as %s: this is %s%s\n", tool.Name, line, reach(line))
	if line.Program != "" {
		if _, err := exec.LookPath(line.Program); err != nil {
			return &exitError{tool.Missing, fmt.Errorf("as %s: the server's command cannot be started: %w", tool.Name, err)}
		}
	}
	cmd.Root().SetArgs(line.Words())
	err = cmd.Root().ExecuteContext(cmd.Context())
	if err == nil || inTheirWords(err.Error(), line) == err.Error() {
		return err
	}
	return &exitError{exitCode(err), errors.New(inTheirWords(err.Error(), line))}
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
	return strings.ReplaceAll(text, "--listen (listen)", cmp.Or(line.From["--listen"], "--listen"))
}
