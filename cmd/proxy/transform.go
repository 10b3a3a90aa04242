package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxRecorded bounds a recorded answer.
const maxRecorded = 256 << 20

func transformCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transform --config FILE [--tool NAME] < result.json",
		Short: "Try the transformation of results on a recorded answer",
		Long: "Transform a recorded answer of a tool as the configuration says, write to stdout what the client would\n" +
			"get, and to stderr how large it was and is, and what was cut. The answer may be a JSON-RPC response, its\n" +
			"result, or what stands in it: JSON or text.",
		Example: "  dragoman transform --config dragoman.yaml --tool list_issues < recorded.json",
		Args:    cobra.NoArgs,
	}
	s := newSettings(cmd)
	f := cmd.Flags()
	call := &transform.Call{Session: "dragoman transform"}
	f.StringVar(&call.Tool, "tool", "", "name of the tool that answered so")
	f.StringVar(&call.Server, "server", "", "name of its server, for rules that name one")
	f.StringVar(&call.Method, "method", "tools/call", "or resources/read, or prompts/get")
	f.IntVar(&call.MaxTokens, "max-tokens", 0, "lower the budget, as a client may")
	f.BoolVar(&call.Full, "full", false, "ask for all detail, as a client may")
	schema := f.String("output-schema", "", "file with the tool's outputSchema, if it has one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.config(nil)
		if err != nil {
			return err
		}
		if cfg.Transform == nil {
			return errors.New("the configuration has no section transform")
		}
		// Nothing is kept here, and so the handle may be the same each time.
		engine, err := transform.New(*cfg.Transform, transform.Options{Keys: [][]byte{make([]byte, 32)}})
		if err != nil {
			return err
		}
		if err := engine.Load(); err != nil {
			return err
		}
		call.Schemas = transform.None
		if *schema != "" {
			if call.Schema, err = os.ReadFile(*schema); err != nil {
				return fmt.Errorf("--output-schema: %w", err)
			}
			if !wire.Valid(call.Schema) {
				return fmt.Errorf("--output-schema: %s is not JSON", *schema)
			}
			call.Schemas = transform.Seen
		}
		in, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxRecorded+1))
		if err != nil {
			return err
		}
		if len(in) > maxRecorded {
			return fmt.Errorf("the answer is longer than %d bytes", maxRecorded)
		}
		out, r := engine.Apply(nil, resultIn(in), call)
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", out); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.ErrOrStderr(), describe(&r))
		return err
	}
	return cmd
}

// resultIn is the result that was recorded. What is none becomes the text of one.
func resultIn(in []byte) []byte {
	in = bytes.TrimSpace(in)
	if wire.Valid(in) && in[0] == '{' {
		v := gjson.ParseBytes(in)
		if result := v.Get("result"); v.Get("jsonrpc").Exists() && result.IsObject() {
			return []byte(result.Raw)
		}
		for _, name := range []string{"content", "contents", "messages", "structuredContent"} {
			if m := v.Get(name); m.IsArray() && m.Get("0.type").Exists() || name == "structuredContent" && m.IsObject() ||
				name == "contents" && m.Get("0.uri").Exists() || name == "messages" && m.Get("0.role").Exists() {
				return in
			}
		}
	}
	text := wire.AppendQuotedInner([]byte(`{"content":[{"type":"text","text":"`), strings.ToValidUTF8(string(in), "\uFFFD"))
	return append(text, `"}]}`...)
}

// describe says what was done, for a person.
func describe(r *transform.Report) string {
	var b strings.Builder
	about := ""
	if r.Estimated {
		about = "about "
	}
	fmt.Fprintf(&b, "outcome  %s\n", r.Outcome)
	rule := r.Rule
	if rule == "" {
		rule = "none matched"
	}
	fmt.Fprintf(&b, "rule     %s\n", rule)
	fmt.Fprintf(&b, "bytes    %d -> %d\n", r.BytesBefore, r.BytesAfter)
	if r.TokensBefore > 0 {
		fmt.Fprintf(&b, "tokens   %s%d -> %d", about, r.TokensBefore, r.TokensAfter)
		if r.Budget > 0 {
			fmt.Fprintf(&b, ", the budget is %d", r.Budget)
		}
		b.WriteByte('\n')
	}
	if r.Source != "" {
		fmt.Fprintf(&b, "adapter  %s\n", r.Source)
	}
	if len(r.Steps) > 0 {
		fmt.Fprintf(&b, "steps    %s\n", strings.Join(r.Steps, ", "))
	}
	for _, a := range r.Arrays {
		where := ""
		if a.Path != "." {
			where = " of " + printable(a.Path)
		}
		fmt.Fprintf(&b, "kept     %d of %d %s%s\n", a.Kept, a.Total, a.What, where)
	}
	for _, n := range []struct {
		count int
		what  string
	}{{r.StringsCut, "texts shortened"}, {r.Omitted, "blocks left out"}, {r.Links, "links left out"}} {
		if n.count > 0 {
			fmt.Fprintf(&b, "cut      %d %s\n", n.count, n.what)
		}
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(&b, "dropped  %s\n", printable(strings.Join(r.Dropped, ", ")))
	}
	if r.OverBudget {
		b.WriteString("over its budget, since the tool's outputSchema allows no less\n")
	}
	if r.Err != nil {
		fmt.Fprintf(&b, "failed   %v\n", r.Err)
	}
	return b.String()
}
