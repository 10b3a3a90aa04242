package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
)

func adapterShowCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME [OPERATION]",
		Short: "Show an adapter, or one of its operations",
		Long:  "Show where an adapter's API is, how it signs in and what it can do, or what one of its operations takes.\n\n" + exitHelp,
		Args:  cobra.RangeArgs(1, 2),
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON, as introspection answers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rt, a, err := s.find(cmd, args[0])
		if err != nil {
			return err
		}
		defer rt.Close()
		if len(args) == 2 {
			return showOperation(cmd.OutOrStdout(), rt, a, args[1], *asJSON)
		}
		if *asJSON {
			return showAdapterJSON(cmd, rt, a)
		}
		return showAdapter(cmd.OutOrStdout(), rt, a)
	}
	return cmd
}

func showAdapter(w io.Writer, rt *adapterrt.Runtime, a *adapterrt.Info) error {
	err := tabulate(w, "", func(row func(...any)) {
		row("name", a.Name)
		row("version", a.Version)
		row("description", a.Description)
		row("file", a.File)
		row("target", a.BaseURL)
		row("auth", a.Auth)
		for _, c := range a.Credentials {
			row("", c+" "+credentialState(c))
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return tabulate(w, "", func(row func(...any)) {
		for _, op := range rt.Operations(a.Name) {
			row(op.Category, op.Name, op.MapsTo, op.Description)
		}
	})
}

// credentialState says whether the file or the environment variable of a credential exists.
func credentialState(place string) string {
	if strings.ContainsAny(place, `/\.`) {
		if _, err := os.Stat(place); err != nil {
			return "(no such file)"
		}
		return "(file)"
	}
	if os.Getenv(place) == "" {
		return "(not set)"
	}
	return "(set)"
}

func showAdapterJSON(cmd *cobra.Command, rt *adapterrt.Runtime, a *adapterrt.Info) error {
	r := rt.Dispatch(cmd.Context(), adapterrt.Endpoint{Adapter: a.Name}, &adapterrt.Request{Body: []byte(`{"operation":"introspect","params":{"query":"operations","first":2000}}`)})
	if r.Failure != nil {
		return r.Failure
	}
	return printJSON(cmd.OutOrStdout(), json.RawMessage(r.Data))
}

// described is what introspection returns for an operation.
type described struct {
	Operation struct {
		Parameters []describedParam
		Returns    struct{ Name string }
		Examples   []struct{ Request json.RawMessage }
		Danger     *struct {
			Level                string
			RequiresConfirmation bool `json:"requires_confirmation"`
			Denied               bool
		}
	}
}

type describedParam struct {
	Name, Type, Description string
	Required                bool
	Default, Minimum        json.RawMessage
	Maximum                 json.RawMessage
	Enum                    []json.RawMessage
	MinLength, MaxLength    *int
	Pattern, Format         string
	Items                   *struct{ Type string }
	Sensitive               bool
}

// operationOf returns an adapter's operation, and what introspection returns for it.
func operationOf(rt *adapterrt.Runtime, a *adapterrt.Info, name string) (*adapterrt.Operation, *described, error) {
	var names []string
	for _, op := range rt.Operations(a.Name) {
		if op.Name == name {
			d := &described{}
			return &op, d, json.Unmarshal(op.Detail, d)
		}
		names = append(names, op.Name)
	}
	return nil, nil, withCode(exitUsage, fmt.Errorf("adapter %s has no operation %q; there are: %s", a.Name, name, orNone(names)))
}

func showOperation(w io.Writer, rt *adapterrt.Runtime, a *adapterrt.Info, name string, asJSON bool) error {
	op, d, err := operationOf(rt, a, name)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, json.RawMessage(op.Detail))
	}
	err = tabulate(w, "", func(row func(...any)) {
		row("operation", op.Name)
		row("category", op.Category)
		row("sends", op.MapsTo)
		row("description", op.Description)
		if g := d.Operation.Danger; g != nil {
			switch {
			case g.Denied:
				row("danger", g.Level+", denied")
			case g.RequiresConfirmation:
				row("danger", g.Level+", needs confirmation")
			default:
				row("danger", g.Level)
			}
		}
		row("returns", d.Operation.Returns.Name)
	})
	if err != nil {
		return err
	}
	if params := d.Operation.Parameters; len(params) > 0 {
		fmt.Fprintln(w)
		err = tabulate(w, "PARAMETER\tTYPE\tREQUIRED\tVALUES\tDESCRIPTION", func(row func(...any)) {
			for _, p := range params {
				required := ""
				if p.Required {
					required = "yes"
				}
				row(p.Name, p.Type, required, p.values(), p.Description)
			}
		})
	}
	if err != nil || len(d.Operation.Examples) == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "\nexample  %s\n", printableJSON(string(d.Operation.Examples[0].Request)))
	return err
}

// values returns a short text about the values that a parameter may have.
func (p *describedParam) values() string {
	var parts []string
	if len(p.Enum) > 0 {
		var all []string
		for _, e := range p.Enum {
			all = append(all, plain(e))
		}
		parts = append(parts, strings.Join(all, "|"))
	}
	if p.Minimum != nil || p.Maximum != nil {
		parts = append(parts, string(p.Minimum)+".."+string(p.Maximum))
	}
	if p.MinLength != nil || p.MaxLength != nil {
		s := ".."
		if p.MinLength != nil {
			s = fmt.Sprint(*p.MinLength) + s
		}
		if p.MaxLength != nil {
			s += fmt.Sprint(*p.MaxLength)
		}
		parts = append(parts, s+" characters")
	}
	if p.Pattern != "" {
		parts = append(parts, "/"+p.Pattern+"/")
	}
	if p.Format != "" {
		parts = append(parts, p.Format)
	}
	if p.Items != nil {
		parts = append(parts, "of "+p.Items.Type)
	}
	if p.Default != nil {
		parts = append(parts, "default "+plain(p.Default))
	}
	return strings.Join(parts, ", ")
}

// plain returns the text of a JSON string, or any other value as it is.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
