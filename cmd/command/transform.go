package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxRecorded is the maximum size of a recorded answer in bytes.
const maxRecorded = 256 << 20

func transformCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transform --config FILE [--tool NAME] < result.json",
		Short: "Try the transformation of results on a recorded answer",
		Long: "Transform a recorded answer of a tool as the configuration says. The result that the client would get goes to\n" +
			"stdout; a terminal shows the results before and after side by side. A report goes to stderr: the rule that\n" +
			"matched, those of its paths that match nothing, and how many tokens of each part were kept. The answer may\n" +
			"be a JSON-RPC response, its result, or the JSON or text of a result.\n\n" +
			"With --call, stdin is a recording (--record FILE), and the result is what the server answered to the call with this\n" +
			"number; the tool and the method are in the recording. Secrets are not in it, so it may be a little shorter.",
		Example: "  dragoman transform --config dragoman.yaml --tool list_issues < recorded.json\n" +
			"  dragoman transform --config dragoman.yaml --call 4711 < recording.jsonl",
		Args: cobra.NoArgs,
	}
	s := newSettings(cmd)
	f := cmd.Flags()
	call := &transform.Call{Session: "dragoman transform"}
	f.StringVar(&call.Tool, "tool", "", "name of the tool that gave the answer")
	f.StringVar(&call.Server, "server", "", "name of the tool's server, for rules that name one (default: that of the configuration's upstream)")
	f.StringVar(&call.Method, "method", "tools/call", "method of the request: tools/call, resources/read or prompts/get")
	f.IntVar(&call.MaxTokens, "max-tokens", 0, "lower the budget, as a client may")
	f.BoolVar(&call.Full, "full", false, "ask for all detail, as a client may")
	number := f.Uint64("call", 0, "read a recording, and transform the server's answer to the call with this number")
	cmd.MarkFlagsMutuallyExclusive("call", "tool")
	cmd.MarkFlagsMutuallyExclusive("call", "method")
	schema := new(string)
	f.Var(&onePath{path: schema}, "output-schema", "file with the tool's outputSchema, if it has one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.config(nil)
		if err != nil {
			return err
		}
		if cfg.Transform == nil {
			return withCode(exitUsage, errors.New("the configuration has no transform section: name a file that has one with --config"))
		}
		// The key need not be secret: this process keeps no results for handles to read.
		engine, err := transform.New(*cfg.Transform, transform.Options{Keys: [][]byte{make([]byte, 32)}})
		if err != nil {
			return err
		}
		if err := engine.Load(); err != nil {
			return err
		}
		call.Server = cmp.Or(call.Server, cfg.Upstream.ServerName())
		call.Schemas = transform.None
		if *schema != "" {
			if call.Schema, err = os.ReadFile(*schema); err != nil {
				return withCode(exitUsage, fmt.Errorf("--output-schema: %w", err))
			}
			if !wire.Valid(call.Schema) {
				return withCode(exitUsage, fmt.Errorf("--output-schema: %s is not JSON", *schema))
			}
			call.Schemas = transform.Seen
		}
		sayReading(cmd)
		in, err := recordedAnswer(cmd.InOrStdin(), f.Changed("call"), *number, call)
		if err != nil {
			return withCode(exitUsage, err)
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

// recordedAnswer returns the answer in a file, or if that is a recording, of the call of this number. Then it sets call's tool and method.
func recordedAnswer(file io.Reader, isRecording bool, number uint64, call *transform.Call) ([]byte, error) {
	if isRecording {
		return answerOf(file, number, call)
	}
	in, err := io.ReadAll(io.LimitReader(file, maxRecorded+1))
	if err == nil && len(in) > maxRecorded {
		err = fmt.Errorf("the answer is longer than %d bytes", maxRecorded)
	}
	return in, err
}

func answerOf(file io.Reader, number uint64, call *transform.Call) ([]byte, error) {
	r, err := recording.NewReader(file)
	if err != nil {
		return nil, err
	}
	seen := false
	var first, last uint64 // calls
	for {
		l, err := r.Next()
		var bad *recording.LineError
		switch {
		case errors.Is(err, io.EOF) && seen:
			return nil, fmt.Errorf("the recording has no result of the server for call %d", number)
		case errors.Is(err, io.EOF):
			if last == 0 {
				return nil, fmt.Errorf("the recording has no call %d, and no other: is it one of --record FILE?", number)
			}
			return nil, fmt.Errorf("the recording has no call %d: its calls are %d to %d; dragoman inspect FILE shows them", number, first, last)
		case errors.As(err, &bad):
			continue
		case err != nil:
			return nil, err
		case l.Kind != recording.Message || l.Call == 0:
			continue
		}
		if last = max(last, l.Call); first == 0 || l.Call < first {
			first = l.Call
		}
		if l.Call != number {
			continue
		}
		seen = true
		tool := gjson.GetBytes(l.Payload, "params.name")
		if tool.Exists() && l.Direction == recording.ClientToServer && l.Edge == recording.ServerEdge {
			call.Tool = tool.String()
		}
		if l.Edge != recording.ServerEdge || l.Direction != recording.ServerToClient {
			continue
		}
		switch {
		case gjson.GetBytes(l.Payload, "result").IsObject():
			call.Method = l.Method
			return l.Payload, nil
		case l.Payload == nil && l.Size > 0:
			return nil, fmt.Errorf("call %d: only the beginning of the answer's %d bytes is in the recording", number, l.Size)
		}
	}
}

// resultIn returns the recorded result. Input that is neither a result nor a response with one becomes the text of a
// new result.
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
