package translate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var update = flag.Bool("update", false, "rewrite the lower halves of the golden files")

const goldenDir = "testdata/golden"

// golden is one file of testdata/golden: a header, a message, and the expected
// translation. Each case is a file of this form:
//
//	# C01 C08 · the rules that act, and what the case shows
//	from: 2025-06-18
//	to: 2024-11-05
//	kind: result             (of responses)
//	method: tools/list       (of responses: the request's)
//	facts: elicitation.url   (what the client declared)
//	stamp: server={…}        (a field of the Stamp; any number of lines)
//	option: tasks=strip      (a switch; any number of lines)
//	note: from h33_x         (the note that another case's request made)
//	loss: WARN C01 title ×2  (any number of lines, all losses or none; "none" for none)
//	-- in --
//	{"jsonrpc":"2.0", …}
//	-- want --               (or answer; drop with nothing below; error with a part of its text)
//	{"jsonrpc":"2.0", …}
type golden struct {
	name     string
	head     string // the header as it is in the file
	title    string
	from, to string
	kind     wire.Kind   // 0 if the file does not give it
	method   wire.Method // of a response: the method that it answers
	facts    wire.Facts
	stamp    *wire.Stamp // what is known of client and server
	options  []string
	note     string // text, or "from <name>"
	losses   []string
	in       string
	verdict  string // want, local, answer, drop, error
	want     string // for an error: a part of its text
}

// goldens reads all golden files.
func goldens(t testing.TB) []golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.golden"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	cases := make([]golden, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		if cases[i], err = parseGolden(name, string(text)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return cases
}

var kinds = map[string]wire.Kind{
	"request":      wire.Request,
	"notification": wire.Notification,
	"result":       wire.Result,
	"error":        wire.Error,
}

var facts = map[string]wire.Facts{
	"roots":            wire.ClientRoots,
	"sampling":         wire.ClientSampling,
	"sampling.tools":   wire.ClientSampling | wire.ClientSamplingTools,
	"sampling.context": wire.ClientSampling | wire.ClientSamplingContext,
	"elicitation":      wire.ClientElicitation | wire.ClientElicitationForm, // {} means form
	"elicitation.form": wire.ClientElicitation | wire.ClientElicitationForm,
	"elicitation.url":  wire.ClientElicitation | wire.ClientElicitationURL,
	"tasks":            wire.ClientTasks,
	"logging":          wire.ServerLogging,
	"server.tasks":     wire.ServerTasks,
}

func (g *golden) addStamp(line string) error {
	if g.stamp == nil {
		g.stamp = new(wire.Stamp)
	}
	key, value, _ := strings.Cut(line, "=")
	for name, to := range map[string]*[]byte{
		"client": &g.stamp.ClientInfo, "capabilities": &g.stamp.Capabilities, "level": &g.stamp.LogLevel,
		"server": &g.stamp.ServerInfo, "subscription": &g.stamp.Subscription, "elicitation": &g.stamp.ElicitationID, "id": &g.stamp.ID, "token": &g.stamp.ProgressToken, "task": &g.stamp.Task,
	} {
		if key == name {
			*to = []byte(value)
			return nil
		}
	}
	if key != "ttl" {
		return fmt.Errorf("unknown stamp %q", line)
	}
	_, err := fmt.Sscan(value, &g.stamp.TTL)
	return err
}

func parseGolden(name, text string) (golden, error) {
	g := golden{name: name}
	head, body, ok := strings.Cut(text, "-- in --\n")
	if !ok {
		return g, fmt.Errorf("no line -- in --")
	}
	g.head = head
	for line := range strings.Lines(head) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "# "); ok {
			g.title = title
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "from":
			g.from = value
		case "to":
			g.to = value
		case "kind":
			if g.kind = kinds[value]; g.kind == 0 {
				return g, fmt.Errorf("unknown kind %q", value)
			}
		case "method":
			g.method = wire.MethodOf([]byte(value))
		case "facts":
			for _, f := range strings.Fields(value) {
				bits, ok := facts[f]
				if !ok {
					return g, fmt.Errorf("unknown fact %q", f)
				}
				g.facts |= bits
			}
		case "stamp":
			if err := g.addStamp(value); err != nil {
				return g, err
			}
		case "option":
			g.options = append(g.options, value)
		case "note":
			g.note = value
		case "loss":
			g.losses = append(g.losses, value)
		default:
			return g, fmt.Errorf("unknown line %q", line)
		}
	}
	for _, verdict := range []string{"want", "local", "answer", "drop", "error"} {
		if in, want, ok := strings.Cut(body, "\n-- "+verdict+" --\n"); ok {
			g.in, g.verdict, g.want = in, verdict, strings.TrimSuffix(want, "\n")
		}
	}
	if g.verdict == "" {
		return g, fmt.Errorf("no line with the verdict, such as -- want --")
	}
	return g, nil
}

// outcome is the translation of a golden case, in the terms of the file.
type outcome struct {
	verdict, text string
	note          string
	losses        []wire.Loss
}

func verdictName(v wire.Verdict) string {
	switch v {
	case wire.Forward:
		return "want"
	case wire.Answer:
		return "answer"
	case wire.Local:
		return "local"
	case wire.Drop:
		return "drop"
	}
	return fmt.Sprintf("verdict %d", v)
}

// byEngine translates the case with package translate.
func (g *golden) byEngine(t testing.TB, all map[string]golden) outcome {
	t.Helper()
	m := wire.Message{Method: g.method, Facts: g.facts, Stamp: g.stamp}
	if name, ok := strings.CutPrefix(g.note, "from "); ok {
		asked := all[name]
		m.Note = []byte(asked.byEngine(t, all).note)
		if len(m.Note) == 0 {
			t.Fatalf("%s made no note", name)
		}
	} else if g.note != "" {
		m.Note = []byte(g.note)
	}
	o, _ := optionsOf(t, g.options)
	return rewrite(t, newTable(t, o), g.from, g.to, []byte(g.in), m, g.kind)
}

// rewrite scans a copy of in and translates it. From m it takes what a caller knows about the
// message. Unless kind is 0, the message must be of that kind.
func rewrite(t rapid.TB, table *translate.Table, from, to string, in []byte, m wire.Message, kind wire.Kind) outcome {
	t.Helper()
	got, err := tryRewrite(table.Between(revision(t, from), revision(t, to)), in, &m)
	if err != nil {
		t.Fatalf("scan: %v\n%s", err, in)
	}
	if kind != 0 && m.Kind != kind {
		t.Fatalf("scanned as kind %d, not %d: %s", m.Kind, kind, in)
	}
	return got
}

// tryRewrite is rewrite without a test; its error is that of the scan. It also translates in the
// message's own memory, and returns an error if the result differs.
func tryRewrite(tr *translate.Translator, in []byte, m *wire.Message) (outcome, error) {
	again := *m
	got, err := rewriteWithin(tr, bytes.Clone(in), 0, m)
	if err != nil {
		return got, err
	}
	room := 2*len(in) + 4096
	inPlace, _ := rewriteWithin(tr, append(make([]byte, 0, len(in)+room), in...), room, &again)
	if !reflect.DeepEqual(inPlace, got) {
		return outcome{}, fmt.Errorf("in place it became %+v, elsewhere %+v", inPlace, got)
	}
	return got, nil
}

// rewriteWithin translates in, with so many bytes of room behind it.
func rewriteWithin(tr *translate.Translator, in []byte, room int, m *wire.Message) (outcome, error) {
	method, note := m.Method, m.Note
	if err := m.Scan(in, tr.Shape()); err != nil {
		return outcome{}, err
	}
	m.Room = room
	if m.Kind == wire.Result || m.Kind == wire.Error {
		m.Method, m.Note = method, note
	}
	out, verdict, err := tr.Rewrite(nil, m)
	if err != nil {
		return outcome{verdict: "error", text: err.Error(), losses: slices.Clone(m.Losses)}, nil
	}
	got := outcome{verdict: verdictName(verdict), losses: slices.Clone(m.Losses)}
	if verdict != wire.Drop {
		got.text = string(out)
	}
	if m.Kind == wire.Request {
		got.note = string(m.Note)
	}
	return got, nil
}

func newTable(t rapid.TB, o translate.Options) *translate.Table {
	t.Helper()
	table, err := translate.NewTable(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func revision(t rapid.TB, name string) *translate.Revision {
	t.Helper()
	r := translate.Lookup(name)
	if r == nil {
		t.Fatalf("no revision %q", name)
	}
	return r
}

// byTwin translates the case with package slow, the engine's slow twin.
func (g *golden) byTwin(t testing.TB, all map[string]golden) outcome {
	t.Helper()
	var m wire.Message
	if err := m.Scan([]byte(g.in), nil); err != nil {
		t.Fatalf("scan: %v", err)
	}
	note := g.note
	if name, ok := strings.CutPrefix(g.note, "from "); ok {
		asked := all[name]
		note = asked.byTwin(t, all).note
	}
	method := m.Method
	if m.Kind == wire.Result || m.Kind == wire.Error {
		method = g.method
	}
	_, o := optionsOf(t, g.options)
	return twin(g.from, g.to, o, slowtest.Message{Text: g.in, Kind: m.Kind, Method: method, Facts: g.facts, Stamp: g.stamp, Note: note})
}

func twin(from, to string, o slowtest.Options, m slowtest.Message) outcome {
	got, err := slowtest.Translate(from, to, o, m)
	if err != nil {
		return outcome{verdict: "error", text: err.Error()}
	}
	return outcome{verdict: verdictName(got.Verdict), text: got.Text, note: got.Note}
}

func byName(cases []golden) map[string]golden {
	all := make(map[string]golden, len(cases))
	for _, g := range cases {
		all[g.name] = g
	}
	return all
}

// TestGolden translates the message of every golden file and compares the result with
// the expected one, byte for byte, and the losses with the expected ones.
func TestGolden(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	for _, g := range cases {
		t.Run(g.name, func(t *testing.T) {
			got := g.byEngine(t, all)
			if *update && got.verdict != "error" {
				g.rewriteFile(t, got)
				return
			}
			switch {
			case got.verdict != g.verdict:
				t.Errorf("%s\n in      %s\n got     %s: %s\n want    %s: %s", g.title, g.in, got.verdict, got.text, g.verdict, g.want)
			case got.verdict == "error":
				if !strings.Contains(got.text, g.want) {
					t.Errorf("%s\n in      %s\n error   %s\n wants   %s", g.title, g.in, got.text, g.want)
				}
			case got.text != g.want:
				t.Errorf("%s\n in      %s\n got     %s\n want    %s", g.title, g.in, got.text, g.want)
			}
			if len(g.losses) > 0 {
				checkLosses(t, g.losses, got.losses)
			}
		})
	}
}

func (g *golden) rewriteFile(t *testing.T, got outcome) {
	t.Helper()
	text := g.head + "-- in --\n" + g.in + "\n-- " + got.verdict + " --\n"
	if got.text != "" {
		text += got.text + "\n"
	}
	if err := os.WriteFile(filepath.Join(goldenDir, g.name+".golden"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var levels = map[wire.Level]string{wire.Debug: "DEBUG", wire.Assumed: "ASSUMED", wire.Info: "INFO", wire.Warn: "WARN"}

// checkLosses compares losses with lines such as "WARN C01 title ×2 standin".
// A line may omit what was lost and the count.
func checkLosses(t *testing.T, want []string, losses []wire.Loss) {
	t.Helper()
	if slices.Equal(want, []string{"none"}) {
		want = nil
	}
	left := slices.Clone(losses)
	for _, line := range want {
		i := slices.IndexFunc(left, func(l wire.Loss) bool { return lossMatches(line, l) })
		if i < 0 {
			t.Errorf("no loss %q among %s", line, lossLines(losses))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, l := range left {
		t.Errorf("unexpected loss %s", lossLine(l))
	}
}

func lossMatches(line string, l wire.Loss) bool {
	fields := strings.Fields(line)
	if fields[0] != levels[l.Level] || fields[1] != l.Rule {
		return false
	}
	for _, f := range fields[2:] {
		count, isCount := strings.CutPrefix(f, "×")
		switch {
		case isCount:
			if count != fmt.Sprint(l.Count) {
				return false
			}
		case f == "standin":
			if !l.Standin {
				return false
			}
		case f != l.What:
			return false
		}
	}
	return true
}

func lossLine(l wire.Loss) string {
	line := fmt.Sprintf("%s %s %s ×%d at %s", levels[l.Level], l.Rule, l.What, l.Count, l.Path)
	if l.Standin {
		line += " standin"
	}
	return line
}

func lossLines(losses []wire.Loss) string {
	lines := make([]string, len(losses))
	for i, l := range losses {
		lines[i] = lossLine(l)
	}
	return "[" + strings.Join(lines, "; ") + "]"
}

// TestGoldenIdempotent translates every golden case's output once more. The second translation
// must change nothing.
func TestGoldenIdempotent(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	for _, g := range cases {
		if g.verdict != "want" || strings.HasPrefix(g.note, "from ") {
			continue // an answer is for the sender; a note is for one answer only
		}
		t.Run(g.name, func(t *testing.T) {
			once := g.byEngine(t, all)
			again := g
			again.in, again.kind = once.text, 0
			twice := again.byEngine(t, all)
			if twice.verdict != "want" || twice.text != once.text {
				t.Errorf("\n once    %s\n twice   %s: %s", once.text, twice.verdict, twice.text)
			}
		})
	}
}
