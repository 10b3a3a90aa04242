package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

var errMissing = errors.New("clients of at least one revision do not get everything: see the report")

func probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe (URL | -- COMMAND [ARG...])",
		Short: "Report what a server is, and what clients of each revision would get from it",
		Long: "Ask a server whether it has a handshake, for its revision, its capabilities and its lists, and report for\n" +
			"clients of each revision what they are offered, what dragoman would change, by which rule, and what\n" +
			"would be lost. No tool is called. The exit code is 1 if clients would not get all entries of its lists, and\n" +
			"3 if the server cannot be reached or refuses its list of tools.",
		Example: "  dragoman probe http://127.0.0.1:3000/mcp\n" +
			"  dragoman probe --json -- npx -y @modelcontextprotocol/server-everything",
	}
	s := newSettings(cmd, upstreamFlags, signInFlags)
	can := capabilitiesFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		declared, err := can()
		if err != nil {
			return err
		}
		cfg, err := s.config(args)
		if err != nil {
			return err
		}
		origin.BorrowLogin(&cfg)
		if s.logLevel == "" {
			cfg.Log.Level = "warn" // the user wants the report
		}
		log, err := logger(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), probeTime)
		defer cancel()
		r, err := proxy.Probe(ctx, cfg, declared, log)
		if login, wanted := errors.AsType[*oauthrelay.LoginError](err); wanted && login.Login != nil {
			if err := printLogin(cmd.OutOrStdout(), login, *asJSON); err != nil {
				return err
			}
		}
		if err != nil {
			return serverFailed(ctx, cfg, err)
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), r)
		} else {
			err = printReport(cmd.OutOrStdout(), r)
		}
		if refused := r.RefusedTools(); err == nil && refused != "" {
			return withCode(exitServer, fmt.Errorf("the server refuses tools/list: %s", printable(refused)))
		}
		if err == nil && !r.Works() {
			err = errMissing
		}
		return err
	}
	return cmd
}

// printReport writes a report as text.
func printReport(out io.Writer, r *probe.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "server\t%s\n", printable(r.Server))
	fmt.Fprintf(w, "era\t%s\n", eras[r.Era])
	revision := r.Revision
	if r.Handshake != "" && r.Handshake != revision {
		revision += ", or " + r.Handshake + " after a handshake,"
	}
	fmt.Fprintf(w, "revision\t%s over %s\n", revision, r.Transport)
	fmt.Fprintf(w, "capabilities\t%s\n", printable(strings.Join(r.Capabilities, ", ")))
	for _, l := range r.Lists {
		if l.Refused != "" {
			fmt.Fprintf(w, "%s\tWARNING: the server refuses this list: %s\n", l.Name, printable(l.Refused))
			continue
		}
		fmt.Fprintf(w, "%s\t%d", l.Name, l.Count)
		if l.Endless != "" {
			fmt.Fprintf(w, "; WARNING: %s", printable(l.Endless))
		}
		fmt.Fprintln(w)
	}
	for _, c := range r.Clients {
		printClient(w, c)
	}
	return w.Flush()
}

// printLogin writes how clients log in to a server that answers nothing without a login.
func printLogin(out io.Writer, l *oauthrelay.LoginError, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			Challenge []string          `json:"challenge"`
			Login     *oauthrelay.Login `json:"login"`
		}{l.Challenge, l.Login})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "the server requires a login")
	for _, c := range l.Challenge {
		fmt.Fprintf(w, "challenge\t%s\n", printable(c))
	}
	if l.Login.Metadata != "" {
		fmt.Fprintf(w, "metadata\t%s\nresource\t%s\n", printable(l.Login.Metadata), printable(l.Login.Resource))
	}
	for _, as := range l.Login.Servers {
		fmt.Fprintf(w, "authorization server\t%s\n", printable(as.Issuer))
		if !as.Found {
			fmt.Fprintln(w, "\tno metadata")
			continue
		}
		for _, has := range []struct {
			what string
			is   bool
		}{{"registers clients", as.Dynamic}, {"accepts client ID metadata documents", as.Document}, {"PKCE with S256", as.PKCE}, {"sends iss in authorization responses", as.Iss}, {"device flow", as.Device}} {
			if has.is {
				fmt.Fprintf(w, "\t%s\n", has.what)
			}
		}
	}
	for _, n := range l.Login.Notes {
		fmt.Fprintf(w, "\n%s\n", printable(n))
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// eras are the texts for the eras of servers.
var eras = map[string]string{
	"legacy": "legacy: with a handshake",
	"modern": "modern: without a handshake",
	"both":   "both: with a handshake and without",
}

// printClient writes what clients of one revision get.
func printClient(w io.Writer, c probe.ClientReport) {
	by := ""
	if c.Way == "bridged" {
		by = ", bridged between the eras"
	}
	all := "everything"
	if c.Loses() {
		all = "every entry of the lists"
	}
	switch {
	case len(c.Changes) == 0 && c.Works && by == "":
		fmt.Fprintf(w, "\nclients of %s get %s as it is\n", c.Revision, all)
	case len(c.Changes) == 0 && c.Works:
		fmt.Fprintf(w, "\nclients of %s get %s%s\n", c.Revision, all, by)
	case c.Works:
		fmt.Fprintf(w, "\nclients of %s get %s%s, with %s:\n", c.Revision, all, by, kinds(&c))
	default:
		fmt.Fprintf(w, "\nclients of %s do not get:\n", c.Revision)
		for _, m := range c.Missing {
			fmt.Fprintf(w, "  %s\n", printable(m))
		}
		switch {
		case len(c.Changes) == 0:
			fmt.Fprintf(w, "and the rest%s\n", by)
		case by == "":
			fmt.Fprintf(w, "and the rest with %s:\n", kinds(&c))
		default:
			fmt.Fprintf(w, "and the rest%s, with %s:\n", by, kinds(&c))
		}
	}
	for _, ch := range c.Changes {
		where := ch.List
		if len(ch.Names) > 0 {
			where += " " + printable(names(ch.Names))
		}
		is := "changed"
		switch {
		case ch.Lost:
			is = "lost"
		case ch.To != "":
			is = "changed to " + ch.To
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", ch.Rule, ch.What, is, where)
	}
	if c.Way == "bridged" {
		fmt.Fprintf(w, "  offered: %s\n", printable(strings.Join(c.Features, ", ")))
	}
	for _, l := range c.Lost {
		fmt.Fprintf(w, "  lost: %s\n", printable(l))
	}
	for _, l := range c.PossiblyLost {
		fmt.Fprintf(w, "  if %s\n", printable(l))
	}
}

// kinds says whether losses, changes or both follow.
func kinds(c *probe.ClientReport) string {
	changes := slices.ContainsFunc(c.Changes, func(ch probe.Change) bool { return !ch.Lost })
	switch {
	case !c.Loses():
		return "changes"
	case changes:
		return "losses and changes"
	}
	return "losses"
}

// names returns the number of names, and the first few of them.
func names(all []string) string {
	const few = 6
	if n := len(all); n > few {
		return fmt.Sprintf("(%d: %s, …)", n, strings.Join(all[:few], ", "))
	}
	return fmt.Sprintf("(%d: %s)", len(all), strings.Join(all, ", "))
}

// capabilitiesFlag adds --capabilities to cmd.
func capabilitiesFlag(cmd *cobra.Command) func() (probe.Capabilities, error) {
	all := probe.AllCapabilities()
	names := cmd.Flags().StringSlice("capabilities", []string{"all"},
		"client capabilities to declare, since some servers have more tools for clients with more capabilities: all, none, or some of "+strings.Join(all, ", "))
	return func() (probe.Capabilities, error) {
		can := probe.Capabilities(*names)
		switch strings.Join(can, ",") {
		case "all":
			return all, nil
		case "none", "":
			return probe.Capabilities{}, nil
		}
		if err := can.Validate(); err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--capabilities: %w", err)}
		}
		return can, nil
	}
}
