package command

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/deploy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration, show what is in effect, or print its JSON Schema",
		Args:  onlySubcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(), configPrintCommand(), configSchemaCommand())
	return cmd
}

func configPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print [URL | -- COMMAND [ARG...]]",
		Short: "Print every setting in effect, and where it is from",
		Long: "Print every setting in effect for the same command line as that of serve, and where it is from: the\n" +
			"default, a line of the file, a variable or a flag. Of a secret, only the length and the beginning of its\n" +
			"SHA-256 are shown, so that two can be compared.",
		Example: "  dragoman config print --config dragoman.yaml\n  dragoman config print --set    # only what is not a default",
	}
	s := newSettings(cmd, listenFlags, upstreamFlags, signInFlags, adapterFlags, transformFlags)
	onlySet := cmd.Flags().Bool("set", false, "leave out the settings that have their default")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		values, err := s.sources(args).Effective()
		if err != nil {
			return &exitError{exitUsage, err}
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, v := range values {
			if v.Origin != config.DefaultOrigin || !*onlySet {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Path, printable(v.Origin), printable(v.Text))
			}
		}
		return w.Flush()
	}
	return cmd
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration file, for editors",
		Example: "  dragoman config schema > config.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(deploy.ConfigSchema)
			return err
		},
	}
}
