package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/translate"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), version())
	return err
}

// version returns the version of this build, and the protocol revisions that it supports.
func version() string {
	number, commit, goVersion := "(unknown)", "", runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		number = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = ", commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " with changes"
			}
		}
	}
	return fmt.Sprintf("dragoman %s%s, %s\nMCP %s\n", number, commit, goVersion, strings.Join(translate.Names(), ", "))
}
