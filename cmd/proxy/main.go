// Command dragoman stands between MCP clients and servers that speak different
// revisions of the protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	log.SetFlags(0)
	log.SetOutput(libraryLog{os.Stderr})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dragoman:", err)
		os.Exit(exitCode(err))
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "dragoman",
		Short: "An interpreter between MCP clients and servers of different protocol revisions",
		Long: "dragoman stands between MCP clients and servers that speak different revisions of the protocol.\n" +
			"Without a command it serves a small built-in server, to try it out.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; see dragoman --help", args[0])
			}
			return nil
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	demo := newSettings(root, listenFlags)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, demo) }
	root.AddCommand(serveCommand(), stdioCommand(), translateCommand(), probeCommand(), footprintCommand(), tokensCommand(), transformCommand(), adapterCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("built without version information")
			}
			revision := ""
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					revision = " " + s.Value
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "dragoman %s%s %s\n", info.Main.Version, revision, info.GoVersion)
			return nil
		},
	}
}
