package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func asCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "as TOOL [ARGUMENT...]",
		Short:              "Run the command line of another tool, such as mcp-remote",
		DisableFlagParsing: true,
		Example: "  dragoman as mcp-remote https://mcp.example.com/mcp 3334\n" +
			"  dragoman as supergateway --stdio 'npx -y @modelcontextprotocol/server-everything' --port 8000",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || isHelp(args[0]) {
			return cmd.Help()
		}
		tool, err := comingfrom.Load(args[0])
		if err != nil {
			return err
		}
		if tool == nil {
			return &exitError{exitUsage, fmt.Errorf("as: %q is not one of %s", args[0], strings.Join(comingfrom.Names(), ", "))}
		}
		line, err := tool.Translate(args[1:], os.LookupEnv)
		if err != nil {
			return &exitError{tool.Usage, fmt.Errorf("as %s: %w", tool.Name, err)}
		}
		for _, ignored := range line.Ignored {
			fmt.Fprintf(stderr, "dragoman: as %s: no effect: %s\n", tool.Name, ignored)
		}
		fmt.Fprintf(stderr, "dragoman: as %s: this is %s\n", tool.Name, config.AsTyped(line.Typed()))
		if line.Program != "" {
			if _, err := exec.LookPath(line.Program); err != nil {
				return &exitError{tool.Missing, fmt.Errorf("as %s: the server's command cannot be started: %w", tool.Name, err)}
			}
		}
		for name, value := range line.Settings {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		err = command(line.Words()).ExecuteContext(cmd.Context())
		if exit, ok := errors.AsType[*exitError](err); ok && exit.code == exitUsage {
			err = &exitError{cmp.Or(tool.Usage, exitOther), exit.error}
		}
		return err
	}
	return cmd
}
