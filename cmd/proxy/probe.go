package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy"
)

// probeTime bounds a probe as a whole.
const probeTime = time.Minute

var errMissing = errors.New("something is missing for clients of some revision")

func probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe (URL | -- COMMAND [ARG...])",
		Short: "Tell what a server is, and what clients of each revision would get of it",
		Long: "Ask a server for its revision, its capabilities and its lists, and tell for clients of each revision\n" +
			"what would be changed on the way, by which rule. Nothing is called. The exit code is 1 when the server\n" +
			"cannot be reached, or when something of its lists would be missing.",
		Example: "  dragoman probe http://127.0.0.1:3000/mcp\n" +
			"  dragoman probe --json -- npx -y @modelcontextprotocol/server-everything",
	}
	s := newSettings(cmd, upstreamFlags)
	asJSON := cmd.Flags().Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && cmd.ArgsLenAtDash() < 0 {
			s.upstream, args = args[0], nil
		}
		cfg, err := s.config(args)
		if err != nil {
			return err
		}
		if s.logLevel == "" {
			cfg.Log.Level = "error" // the report is what was asked for
		}
		log, err := logger(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), probeTime)
		defer cancel()
		r, err := proxy.Probe(ctx, cfg, log)
		if err != nil {
			return err
		}
		if *asJSON {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			err = enc.Encode(r)
		} else {
			err = printReport(cmd.OutOrStdout(), r)
		}
		if err == nil && !r.Works() {
			err = errMissing
		}
		return err
	}
	return cmd
}

// printReport writes a report for a person.
func printReport(out io.Writer, r *proxy.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "server\t%s\n", printable(r.Server))
	fmt.Fprintf(w, "revision\t%s over %s\n", r.Revision, r.Transport)
	fmt.Fprintf(w, "capabilities\t%s\n", printable(strings.Join(r.Capabilities, ", ")))
	for _, l := range r.Lists {
		fmt.Fprintf(w, "%s\t%d\n", l.Name, l.Count)
	}
	for _, c := range r.Clients {
		switch {
		case len(c.Changes) == 0 && c.Works:
			fmt.Fprintf(w, "\nclients of %s get everything as it is\n", c.Revision)
			continue
		case c.Works:
			fmt.Fprintf(w, "\nclients of %s get everything, with changes:\n", c.Revision)
		default:
			fmt.Fprintf(w, "\nclients of %s do not get:\n", c.Revision)
			for _, m := range c.Missing {
				fmt.Fprintf(w, "  %s\n", printable(m))
			}
			if len(c.Changes) > 0 {
				fmt.Fprintln(w, "and the rest with changes:")
			}
		}
		for _, ch := range c.Changes {
			where := ch.List
			if len(ch.Names) > 0 {
				where += " " + printable(names(ch.Names))
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", ch.Rule, ch.What, ch.Level, where)
		}
	}
	return w.Flush()
}

// names lists the first few.
func names(all []string) string {
	const few = 6
	if n := len(all); n > few {
		return fmt.Sprintf("(%d: %s, …)", n, strings.Join(all[:few], ", "))
	}
	return fmt.Sprintf("(%d: %s)", len(all), strings.Join(all, ", "))
}
