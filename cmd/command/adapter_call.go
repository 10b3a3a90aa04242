package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
)

func adapterCallCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call NAME OPERATION [KEY=VALUE...]",
		Short: "Call an operation with the credentials of the environment",
		Long: "Call an operation of an adapter with the credentials of the environment, and print its result as JSON.\n" +
			"A value is converted to its parameter's type; KEY:=JSON passes any JSON value as it is. For an array,\n" +
			"repeat the key. --yes confirms an operation that requires confirmation.\n\n" + exitHelp,
		Example: "  dragoman adapter call github-api get_repo owner=octocat repo=hello-world\n" +
			"  dragoman adapter call github-api create_issue owner=o repo=r title='It is broken' labels=bug labels=urgent\n" +
			"  dragoman adapter call notion create_page 'parent:={\"page_id\":\"…\"}' --dry-run",
		Args: cobra.MinimumNArgs(2),
	}
	dry := cmd.Flags().Bool("dry-run", false, "print the HTTP request, secrets masked or named as missing, and send nothing")
	yes := cmd.Flags().Bool("yes", false, "confirm the operation, if it requires confirmation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rt, a, err := s.find(cmd, args[0])
		if err != nil {
			return err
		}
		defer rt.Close()
		var d *described
		if args[1] != "introspect" {
			if _, d, err = operationOf(rt, a, args[1]); err != nil {
				return err
			}
		}
		params, err := arguments(args[2:], d)
		if err != nil {
			return withCode(exitUsage, err)
		}
		body, err := json.Marshal(map[string]any{"operation": args[1], "params": params})
		if err != nil {
			return err
		}
		at, req := adapterrt.Endpoint{Adapter: a.Name}, &adapterrt.Request{Body: body, Caller: "command line"}
		if *dry {
			p, f := rt.Preview(at, req)
			if f != nil {
				return failed(f)
			}
			return printPreview(cmd.OutOrStdout(), p)
		}
		if *yes {
			req.Ask = func(context.Context, string) (bool, error) { return true, nil }
		}
		r := rt.Dispatch(cmd.Context(), at, req)
		if f := r.Failure; f != nil && f.Code == failure.ConfirmationRequired {
			return &exitError{exitServer, fmt.Errorf("%s; to confirm, repeat the command with --yes", f.Message)}
		}
		if r.Cancelled {
			return cmd.Context().Err()
		}
		if err := printJSON(cmd.OutOrStdout(), json.RawMessage(r.JSON())); err != nil {
			return err
		}
		if r.Failure != nil {
			return unreached(a, r.Failure)
		}
		return nil
	}
	return cmd
}

func printPreview(w io.Writer, p *adapterrt.Preview) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", p.Method, p.URL)
	for _, h := range p.Header {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	if p.Body != "" {
		fmt.Fprintf(&b, "\n%s\n", p.Body)
	}
	_, err := io.WriteString(w, printableLines(b.String()))
	return err
}

// arguments parses KEY=VALUE and KEY:=JSON by the types of an operation's parameters. The value of an
// unknown parameter stays text; the operation refuses it. d is nil if the parameters are not known.
func arguments(args []string, d *described) (map[string]json.RawMessage, error) {
	known := map[string]*describedParam{}
	if d != nil {
		for i := range d.Operation.Parameters {
			p := &d.Operation.Parameters[i]
			known[p.Name] = p
		}
	}
	elements := map[string][]json.RawMessage{}
	out := map[string]json.RawMessage{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" || key == ":" {
			if len(known) == 0 {
				return nil, fmt.Errorf("%q is not KEY=VALUE", arg)
			}
			return nil, fmt.Errorf("%q is not KEY=VALUE; the operation takes %s", arg, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		name, literal := strings.CutSuffix(key, ":")
		p := known[name]
		if _, twice := out[name]; twice && (literal || elements[name] == nil) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		switch {
		case literal && !json.Valid([]byte(value)):
			return nil, fmt.Errorf("%s: the value after := is not JSON", name)
		case literal:
			out[name] = json.RawMessage(value)
		case p != nil && p.Type == "array" && !strings.HasPrefix(strings.TrimSpace(value), "["):
			item := "string"
			if p.Items != nil {
				item = p.Items.Type
			}
			elements[name] = append(elements[name], typed(value, item))
			out[name], _ = json.Marshal(elements[name])
		case p != nil:
			out[name] = typed(value, p.Type)
		default:
			out[name] = quoted(value)
		}
	}
	return out, nil
}

// typed converts a value to JSON of a type. A value that is not JSON becomes a string: the operation's
// error then says what it expects.
func typed(value, typ string) json.RawMessage {
	if raw := json.RawMessage(value); typ != "string" && json.Valid(raw) {
		return raw
	}
	return quoted(value)
}

func quoted(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // cannot fail for a string
	return raw
}

// failed returns the error for a failed operation. It includes what the API said or the cause, because the user
// of the command line owns the credentials and files.
func failed(f *failure.Failure) error {
	err := error(f)
	if f.Original != "" {
		err = fmt.Errorf("%w (the API said: %s)", f, printable(f.Original))
	} else if f.Cause != nil {
		err = fmt.Errorf("%w (%s)", f, printable(f.Cause.Error()))
	}
	return &exitError{exitServer, err}
}

// unreached is failed for an API that cannot be reached. The text names the API by the URL in the adapter file.
func unreached(a *adapterrt.Info, f *failure.Failure) error {
	does := ""
	switch f.Code {
	case failure.TransportRefused:
		does = "refuses connections: is the API running?"
	case failure.TransportDNS:
		does = "has a host that cannot be resolved: is its name right?"
	}
	if does == "" || a.BaseURL == "" {
		return failed(f)
	}
	return &exitError{exitServer, fmt.Errorf("%s (target.base_url) %s", a.BaseURL, does)}
}
