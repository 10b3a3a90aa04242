package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// onlySubcommands refuses an argument of a command that has only subcommands, and says which of them it may have meant.
func onlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
		if slices.Contains(c.SuggestFor, args[0]) {
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
