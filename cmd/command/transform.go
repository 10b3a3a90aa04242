package command

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
		Long: "Transform a recorded answer of a tool as the configuration says. Stdout has what the client would get; on a\n" +
			"terminal, before and after beside each other. Stderr has which rule matched, which of its paths match\n" +
			"nothing, and what was kept of each part, in tokens. The answer may be a JSON-RPC response, its result, or\n" +
			"what stands in it: JSON or text.",
		Example: "  dragoman transform --config dragoman.yaml --tool list_issues < recorded.json",
		Args:    cobra.NoArgs,
	}
	s := newSettings(cmd)
	f := cmd.Flags()
	call := &transform.Call{Session: "dragoman transform"}
	f.StringVar(&call.Tool, "tool", "", "name of the tool that answered so")
	f.StringVar(&call.Server, "server", "", "name of its server, for rules that name one (default: that of the configuration's upstream)")
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
			return errors.New("the configuration has no transform section")
		}
		// Nothing is kept here, and so the handle may be the same each time.
		engine, err := transform.New(*cfg.Transform, transform.Options{Keys: [][]byte{make([]byte, 32)}})
		if err != nil {
			return err
		}
		if err := engine.Load(); err != nil {
			return err
		}
		if call.Server == "" {
			call.Server = cfg.Upstream.ServerName()
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
		in = resultIn(in)
		out, r := engine.Apply(nil, in, call)
		if width := terminalWidth(cmd.OutOrStdout()); width > 0 {
			err = sideBySide(cmd.OutOrStdout(), in, out, width)
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", out)
		}
		if err != nil {
			return err
		}
		d := description{Report: &r, call: call, rules: cfg.Transform.Rules, before: engine.Parts(in, call.Method), after: engine.Parts(out, call.Method)}
		return d.write(cmd.ErrOrStderr())
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
