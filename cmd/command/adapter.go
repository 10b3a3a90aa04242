package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// adapterSettings are the flags that all adapter commands share.
type adapterSettings struct {
	config   string
	sources  []string
	insecure []string
}

// defaultAdapters is the default directory of adapters.
const defaultAdapters = "./adapters"

// workplace is where the adapters of a command are, and the options of their runtime.
type workplace struct {
	sources []file.Source
	options adapterrt.Options
}

// workplace returns the workplace with the adapters in args or, if args is empty, in the settings.
func (s *adapterSettings) workplace(args []string) (*workplace, error) {
	cfg, err := config.Sources{File: s.config, Environ: os.Environ()}.Read()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if len(args) == 0 {
		args = s.sources
	}
	if len(args) > 0 {
		cfg.Adapters.Sources = args
	} else if len(cfg.Adapters.Sources) == 0 {
		cfg.Adapters.Sources = []string{defaultAdapters}
	}
	w := &workplace{sources: cfg.Adapters.List()}
	if w.options, err = adapters.Options(&cfg.Adapters, os.LookupEnv); err != nil {
		return nil, err
	}
	log, err := logger(cfg)
	if err != nil {
		return nil, err
	}
	w.options.Tokens = origin.TokenStore(&cfg, log)
	w.options.SkipInvalid = true                                     // the errors of invalid files are printed
	w.options.Introspection = present.Extended                       // users of the command line see everything
	w.options.ConfirmVia = guard.ConfirmAuto                         // --yes confirms, whatever the configuration says for clients
	w.options.CursorKey = []byte("cursors of dragoman adapter call") // the same in each process, so that one follows the endCursor of another
	w.options.InsecureHosts = append(w.options.InsecureHosts, s.insecure...)
	return w, nil
}

// where returns the paths of the sources, for a message.
func (w *workplace) where() string {
	var all []string
	for _, s := range w.sources {
		all = append(all, s.Path)
	}
	return strings.Join(all, ", ")
}

// load loads the valid adapters and prints the errors of the others. wrong reports whether there
// are errors.
func (w *workplace) load(cmd *cobra.Command) (rt *adapterrt.Runtime, wrong bool, err error) {
	files, problems := file.Find(w.sources)
	if len(files)+len(problems) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", printable(w.where()), file.NoFiles)
	}
	rt, err = adapterrt.New(w.options)
	if err != nil {
		return nil, false, err
	}
	more, err := rt.Load(files)
	if err != nil {
		return nil, false, err
	}
	for _, p := range append(problems, more...) {
		if p.Severity == file.Error {
			wrong = true
			fmt.Fprintln(cmd.ErrOrStderr(), printable(p.String()))
		}
	}
	return rt, wrong, nil
}

// find loads the adapters and returns the one with that name.
func (s *adapterSettings) find(cmd *cobra.Command, name string) (*adapterrt.Runtime, *adapterrt.Info, error) {
	w, err := s.workplace(nil)
	if err != nil {
		return nil, nil, err
	}
	rt, _, err := w.load(cmd)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, a := range rt.Adapters() {
		if a.Name == name {
			return rt, &a, nil
		}
		names = append(names, a.Name)
	}
	rt.Close()
	if strings.HasSuffix(name, ".md") {
		return nil, nil, &exitError{exitUsage, fmt.Errorf("%q is a file: %s --adapters %s, with the name of the adapter in it in its place", name, cmd.CommandPath(), config.AsTyped([]string{name}))}
	}
	return nil, nil, &exitError{exitUsage, fmt.Errorf("no adapter %q in %s; there are: %s", name, w.where(), orNone(names))}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// errSomeWrong is the error of a command whose output does not include all adapters.
var errSomeWrong = errors.New("some adapter files have errors")

// loaded calls do with the valid adapters. If do succeeds and other adapters have errors, it returns
// errSomeWrong.
func (s *adapterSettings) loaded(cmd *cobra.Command, do func(*adapterrt.Runtime) error) error {
	w, err := s.workplace(nil)
	if err != nil {
		return err
	}
	rt, wrong, err := w.load(cmd)
	if err != nil {
		return err
	}
	defer rt.Close()
	if err := do(rt); err != nil {
		return err
	}
	if wrong {
		return &exitError{exitUsage, errSomeWrong}
	}
	return nil
}

func adapterListCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the adapters",
		Long: "List the adapters that would be served. The errors of the others go to stderr. TOKENS are those that the operations\n" +
			"take in tools/list if each is a tool of its own (adapters.mode: discrete), and OUTPUT those of their output schemas.\n\n" + exitHelp,
		Args: cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.loaded(cmd, func(rt *adapterrt.Runtime) error {
			in, err := encodingOfCosts()
			if err != nil {
				return err
			}
			costs := map[string]toolCost{}
			for _, a := range rt.Adapters() {
				var c toolCost
				for _, op := range rt.Operations(a.Name) {
					c.add(op.Tool, in)
				}
				costs[a.Name] = c
			}
			if *asJSON {
				return printAdapters(cmd.OutOrStdout(), rt.Adapters(), costs)
			}
			return tabulate(cmd.OutOrStdout(), "NAME\tVERSION\tOPERATIONS\tTOKENS\tOUTPUT\tDESCRIPTION", func(row func(...any)) {
				for _, a := range rt.Adapters() {
					row(a.Name, a.Version, a.Operations, costs[a.Name].all, costs[a.Name].output, a.Description)
				}
			})
		})
	}
	return cmd
}

// listedAdapter is an adapter in the JSON of the list.
type listedAdapter struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	File        string   `json:"file"`
	BaseURL     string   `json:"base_url"`
	Auth        string   `json:"auth"`
	Credentials []string `json:"credentials"`
	Operations  int      `json:"operations"`
	Tokens      int      `json:"tokens"`
	Output      int      `json:"output_schema_tokens"`
}

func printAdapters(w io.Writer, all []adapterrt.Info, costs map[string]toolCost) error {
	out := make([]listedAdapter, 0, len(all))
	for _, a := range all {
		out = append(out, listedAdapter{a.Name, a.Version, a.Description, a.File, a.BaseURL, a.Auth, slices.Concat([]string{}, a.Credentials), a.Operations, costs[a.Name].all, costs[a.Name].output})
	}
	return printJSON(w, out)
}

func printJSON(w io.Writer, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, printableJSON(b.String()))
	return err
}

// tabulate writes a table. titles are the titles of the columns, separated by tabs, or "" for none.
func tabulate(w io.Writer, titles string, rows func(row func(...any))) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if titles != "" {
		fmt.Fprintln(tw, titles)
	}
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, printable(fmt.Sprint(c)))
		}
		fmt.Fprintln(tw)
	})
	return tw.Flush()
}
