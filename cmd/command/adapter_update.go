package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

func (i *importSettings) updateFile(cmd *cobra.Command, w *workplace, d *openapi.Document) error {
	return errors.New("not yet")
}
