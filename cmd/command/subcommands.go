package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// otherNames are names that people try for a command, by the command.
var otherNames = map[string]string{
	"dragoman serve":     "start run proxy http server up daemon listen sse streamable-http",
	"dragoman stdio":     "shim connect pipe bridge",
	"dragoman doctor":    "check diagnose debug test status",
	"dragoman inspect":   "ui page view dashboard",
	"dragoman login":     "auth signin authorize",
	"dragoman logout":    "signout",
	"dragoman probe":     "info discover",
	"dragoman footprint": "size cost",
	"dragoman tokens":    "count",

	"dragoman config print": "show get list dump view",
	"dragoman config check": "validate lint test verify",

	"dragoman adapter validate": "check lint verify",
	"dragoman adapter import":   "generate convert create update add",
	"dragoman adapter show":     "get info describe",
	"dragoman adapter list":     "ls",
	"dragoman adapter call":     "run exec",
}

// onlySubcommands refuses an argument of a command that has only subcommands, and says which of them it may have meant.
func onlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
		if slices.Contains(strings.Fields(otherNames[c.CommandPath()]), args[0]) {
			return fmt.Errorf("unknown command %q; did you mean %s?", args[0], c.CommandPath())
		}
	}
	if near := setting.Nearest(args[0], names); near != "" {
		return fmt.Errorf("unknown command %q; did you mean %s %s?", args[0], cmd.CommandPath(), near)
	}
	return fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// checkHelp makes "help NAME" fail for a command that does not exist.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err == nil {
					err = onlySubcommands(cmd, rest)
				}
				return withCode(exitUsage, err)
			}
		}
	}
}
