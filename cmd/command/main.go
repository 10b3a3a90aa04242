// Package command is dragoman's command line: its commands, their flags, signals,
// what they print and how they exit.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// Main runs the command that the arguments of the process name, and exits with 1 or more if it fails.
func Main() {
	log.SetFlags(0)
	stderr.form.set(config.LogAuto)
	log.SetOutput(libraryLog{stderr, &stderr.form})
	outlivePipes()
	memlimit.Apply()
	go children.ReapOrphans()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal ends the process at once
	err := causeOf(ctx, command(os.Args[1:]).ExecuteContext(ctx))
	stop()
	if readerLeft(err) {
		err = nil
	}
	if err != nil {
		fmt.Fprintln(stderr, "dragoman:", err)
	}
	_ = stderr.Sync() // never fails
	if isUnserved(os.Args, err) {
		answerUnserved(os.Stdin, os.Stdout, unservedWait, err)
	}
	if err != nil {
		os.Exit(exitCode(err))
	}
}

// readerLeft reports whether the reader of a report, such as head, has closed stdout: it has what it wanted.
func readerLeft(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == os.Stdout.Name() && errors.Is(err, syscall.EPIPE)
}

// command returns the command line with its arguments.
func command(args []string) *cobra.Command {
	args = withOrigins(args)
	root := &cobra.Command{
		Use:   "dragoman",
		Short: "An interpreter between MCP clients and servers of different protocol revisions",
		Long: "dragoman stands between MCP clients and servers that speak different revisions of the protocol.\n" +
			"Without a command it serves a small built-in server, to try it out.\n\n" + exitHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          rootArguments,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	demo := newSettings(root, listenFlags, openFlag)
	quiet := root.Flags().Bool("quiet", false, "do not show the messages")
	// Not the field Version of cobra: to print it without cobra's own words takes a template, and a program with templates
	// has every method of every type, 4.6 MB more.
	showVersion := root.Flags().BoolP("version", "v", false, "version for dragoman")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			return printVersion(cmd)
		}
		return runDemo(cmd, demo, *quiet)
	}
	root.AddCommand(serveCommand(), stdioCommand(), asCommand(), loginCommand(), logoutCommand(), translateCommand(), probeCommand(), doctorCommand(), inspectCommand(), configCommand(), footprintCommand(), tokensCommand(), transformCommand(), adapterCommand(), versionCommand())
	checkUsage(root, args)
	checkHelp(root)
	root.SetArgs(args)
	return root
}
