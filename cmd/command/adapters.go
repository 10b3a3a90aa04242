package command

import "github.com/spf13/cobra"

func adapterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adapter",
		Short: "Check adapter files, show them, and call their operations",
		Long: "Adapters are Markdown files whose front matter says how an HTTP API becomes operations.\n" +
			"dragoman serve --adapters DIR offers them to clients; these commands help to write them.\n\n" + exitHelp,
		Example: "  dragoman adapter new my-api > adapters/my-api-adapter.md\n" +
			"  dragoman adapter import openapi.yaml -o adapters\n" +
			"  dragoman adapter validate adapters/my-api-adapter.md\n" +
			"  dragoman adapter test adapters/my-api-adapter.md\n" +
			"  dragoman adapter call my-api get_item id=7 --dry-run\n" +
			"  dragoman adapter login my-api",
		Args: onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	s := &adapterSettings{}
	f := cmd.PersistentFlags()
	f.Var(&onePath{path: &s.config}, "config", "configuration file (YAML), of which the adapters section applies as it does for serve")
	f.StringArrayVar(&s.sources, "adapters", nil, "directory with adapters, or adapter file; repeatable (default those of the configuration, or ./adapters)")
	f.StringArrayVar(&s.insecure, "insecure-host", nil, "host, besides localhost, that adapters may call over http; repeatable")
	cmd.AddCommand(
		adapterValidateCommand(s), adapterListCommand(s), adapterShowCommand(s),
		adapterCallCommand(s), adapterTestCommand(s), adapterNewCommand(), adapterImportCommand(s), adapterDiffCommand(s),
		adapterLoginCommand(s), adapterLogoutCommand(s),
	)
	return cmd
}
