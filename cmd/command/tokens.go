package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// modelFlag adds --model to cmd.
func modelFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("model", transform.DefaultConfig().Adapters.Capper.Model, "model to count for, or encoding (cl100k_base, o200k_base, ...)")
}

// encodingFor returns the encoding that counts tokens for a model. If it only estimates them, encodingFor prints that
// on cmd's stderr.
func encodingFor(cmd *cobra.Command, model string) (*tokens.Encoding, error) {
	e, exact, err := tokens.ForModel(model, 0)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	if !exact {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s has no public tokenizer: an estimate, %s times %g\n", model, e.Name(), e.Factor())
	}
	return e, e.Load()
}

func tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tokens [--model NAME] < text",
		Short:   "Count the tokens of a text",
		Long:    "Count the tokens of stdin, as a model would. The count is exact for models whose tokenizer is public.",
		Example: "  dragoman tokens < README.md\n  dragoman tokens --model gpt-4o < result.json",
		Args:    cobra.NoArgs,
	}
	model := modelFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := encodingFor(cmd, *model)
		if err != nil {
			return err
		}
		sayReading(cmd)
		c := e.Counter()
		defer c.Release()
		if _, err := io.Copy(c, cmd.InOrStdin()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Sum())
		return err
	}
	return cmd
}
