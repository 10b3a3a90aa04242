package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/transform/footprint"
)

// footprintReport is what the command prints with --json, and reads as a baseline.
type footprintReport struct {
	Encoding     string             `json:"encoding"`
	MaxBytes     int                `json:"max_bytes"`
	Capabilities probe.Capabilities `json:"capabilities"` // that were declared
	footprint.Report
}

func footprintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "footprint (URL | -- COMMAND [ARG...])",
		Short: "Report how many tokens a server's list of tools costs a model",
		Long: "Ask a server for its tools, all pages, and report the size of the list and of the server's instructions in\n" +
			"bytes and tokens, the largest tool first, and text that several descriptions repeat. No tool is called. The\n" +
			"exit code is 1 if list and instructions are larger than --max-bytes, or worse than --baseline: they are\n" +
			"larger, the instructions or a tool are missing, a parameter is no longer an object, or descriptions repeat\n" +
			"text that they did not repeat before.",
		Example: "  dragoman footprint http://127.0.0.1:3000/mcp\n" +
			"  dragoman footprint --json -- npx -y @modelcontextprotocol/server-everything > footprint.json\n" +
			"  dragoman footprint --baseline footprint.json --max-bytes 20000 http://127.0.0.1:3000/mcp",
	}
	s := newSettings(cmd, upstreamFlags, signInFlags)
	model := modelFlag(cmd)
	can := capabilitiesFlag(cmd)
	f := cmd.Flags()
	maxBytes := f.Int("max-bytes", footprint.DefaultBudget, "maximum size of list and instructions; 0 for no limit")
	baseline := new(string)
	f.Var(&onePath{path: baseline}, "baseline", "an earlier report, printed with --json, to compare with")
	asJSON := f.Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *maxBytes < 0 {
			return withCode(exitUsage, errors.New("--max-bytes: must not be below 0"))
		}
		before, err := readBaseline(*baseline)
		if err != nil {
			return err
		}
		count, err := encodingFor(cmd, *model)
		if err != nil {
			return err
		}
		declared, err := can()
		if err != nil {
			return err
		}
		list, err := toolsOf(cmd, s, args, declared)
		if err != nil {
			return err
		}
		measured, err := footprint.Measure(list.Tools, list.Instructions, count.Count)
		if err != nil {
			return err
		}
		r := &footprintReport{count.Name(), *maxBytes, declared, measured}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), r)
		} else {
			err = printFootprint(cmd.OutOrStdout(), r)
		}
		if err != nil {
			return err
		}
		return r.judge(before)
	}
	return cmd
}

// toolsOf requests the tools of the server that args, the arguments of the command line, name.
func toolsOf(cmd *cobra.Command, s *settings, args []string, can probe.Capabilities) (*probe.ToolList, error) {
	cfg, err := s.config(args)
	if err != nil {
		return nil, err
	}
	origin.BorrowLogin(&cfg)
	if s.logLevel == "" {
		cfg.Log.Level = "error" // the user wants the report only
	}
	log, err := logger(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), probeTime)
	defer cancel()
	tools, err := proxy.Tools(ctx, cfg, can, log)
	return tools, serverFailed(ctx, cfg, err)
}

func readBaseline(file string) (*footprintReport, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--baseline: %w", err)}
	}
	r := new(footprintReport)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--baseline: %s is not a report of dragoman footprint --json: %w", file, err)}
	}
	return r, nil
}

// judge returns an error if the report is over the budget, or worse than before.
func (r *footprintReport) judge(before *footprintReport) error {
	var wrong []string
	if r.MaxBytes > 0 && r.InAll() > r.MaxBytes {
		wrong = append(wrong, fmt.Sprintf("list and instructions have %d bytes, over the budget of %d", r.InAll(), r.MaxBytes))
	}
	if before != nil {
		wrong = append(wrong, r.Regressions(before.Report)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// printFootprint writes a report as text.
func printFootprint(out io.Writer, r *footprintReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "bytes\ttokens\tdescription\tinput\toutput\toutput tokens\t  \n")
	output := 0
	for _, t := range r.Tools {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", t.Bytes, t.Tokens, t.DescriptionBytes, t.InputSchemaBytes, t.OutputSchemaBytes, t.OutputSchemaTokens, printable(t.Name))
		output += t.OutputSchemaTokens
	}
	fmt.Fprintf(w, "%d\t%d\t\t\t\t%d\t  %d tools\n", r.Bytes, r.Tokens, output, len(r.Tools))
	fmt.Fprintf(w, "%d\t%d\t\t\t\t\t  the server's instructions\n", r.InstructionBytes, r.InstructionTokens)
	fmt.Fprintf(w, "%d\t%d\t\t\t\t\t  in all (%s)\n", r.InAll(), r.Tokens+r.InstructionTokens, r.Encoding)
	if err := w.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	declared := "nothing"
	if len(r.Capabilities) > 0 {
		declared = strings.Join(r.Capabilities, ", ")
	}
	fmt.Fprintf(&b, "\nto a client that declares %s\n", declared)
	for i, repeat := range r.Repeats {
		const few = 10
		if i == 0 {
			b.WriteString("repeated in several descriptions:\n")
		}
		if i == few {
			fmt.Fprintf(&b, "  and %d more\n", len(r.Repeats)-few)
			break
		}
		fmt.Fprintf(&b, "  %d times, %d bytes: %s\n", repeat.Count, len(repeat.Text), printable(repeat.Text))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
