package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

const diffHelp = `Exit codes:
  0  the document has not changed
  1  failed
  2  the command line, the adapter file or the document is wrong
  3  the document has changed; with --breaking: so that calls fail`

func adapterDiffCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff FILE DOCUMENT",
		Short: "Say what has changed in the document of which an adapter file was made",
		Long: "Say what has changed in an OpenAPI or Swagger document since an adapter file was made of it: operations that are new,\n" +
			"gone, moved, renamed or deprecated, and parameters that are new, gone, required or have other values. Operations are\n" +
			"compared by method and path, so that they may have other names in the file. What a person has changed in the file is no\n" +
			"difference, unless the document has changed there, too. For a file that was not imported, all that differs is listed.\n\n" + diffHelp,
		Example: "  dragoman adapter diff adapters/shop-adapter.md openapi.yaml\n" +
			"  dragoman adapter diff --breaking --fetch adapters/shop-adapter.md https://api.example.com/openapi.json",
		Args: cobra.ExactArgs(2),
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	breaking := cmd.Flags().Bool("breaking", false, "only what makes calls fail")
	fetch := cmd.Flags().Bool("fetch", false, "fetch the document, and those that it refers to, over https")
	var files int
	filesFlag(cmd, &files)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := s.workplace(nil)
		if err != nil {
			return err
		}
		data, err := readAdapter(args[0])
		if err != nil {
			return withCode(exitUsage, err)
		}
		a, problems := adapterrt.Parse(args[0], data, &w.options)
		if a == nil {
			return firstError(problems)
		}
		d, err := documentReader(cmd, w, *fetch, files).read(cmd.Context(), args[1])
		if exitCode(err) == exitServer { // which is exitDiffers here
			err = &exitError{exitOther, err}
		}
		if err != nil {
			return err
		}
		changes, err := openapi.Diff(data, a, d, w.options.InsecureHosts)
		if err != nil {
			return withCode(exitUsage, err)
		}
		shown := []openapi.Change{}
		for _, c := range changes {
			if c.Breaking || !*breaking {
				shown = append(shown, c)
			}
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), shown)
		} else {
			for _, c := range shown {
				if _, err = fmt.Fprintln(cmd.OutOrStdout(), printable(c.String())); err != nil {
					break
				}
			}
		}
		if err != nil || len(shown) == 0 {
			return err
		}
		return &exitError{exitDiffers, fmt.Errorf("%s since %s was made of the document", count(len(shown), "change"), args[0])}
	}
	return cmd
}

// exitDiffers is the exit code of a comparison that finds a difference.
const exitDiffers = 3

// documentReader returns documents with the operator's settings for the network.
func documentReader(cmd *cobra.Command, w *workplace, fetch bool, files int) *documents {
	return &documents{in: cmd.InOrStdin(), fetch: fetch, files: files, publicOnly: w.options.PublicOnly, proxy: w.options.Proxy}
}

func filesFlag(cmd *cobra.Command, files *int) {
	cmd.Flags().IntVar(files, "max-files", openapi.MaxFiles, "the most files that a document may refer to")
}
