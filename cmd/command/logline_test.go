package command

import (
	"errors"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestLogAsText checks what a person at a terminal reads: the essential first, on one line of at most 160 columns, which no value of a
// peer can break, leave or colour, and below it what to do where that has no room in it.
func TestLogAsText(t *testing.T) {
	at := time.Date(2026, 11, 29, 9, 5, 7, 0, time.Local)
	long := strings.Repeat("word ", 60)
	for name, c := range map[string]struct {
		level   zapcore.Level
		message string
		fields  []zap.Field
		want    string
	}{
		"in the order of importance": {zap.WarnLevel, "upstream is not ready", []zap.Field{
			zap.Int("attempt", 2), zap.String("cause", "refused"), zap.String("server", "http://a/mcp"), zap.String("advice", "start it"), zap.Error(errors.New("connection refused")),
		}, `09:05:07 WARN  upstream is not ready: connection refused → start it server=http://a/mcp cause=refused attempt=2`},
		"an address": {zap.InfoLevel, "serving", []zap.Field{zap.String("server", "x"), zap.String("url", "http://a/mcp")}, `09:05:07 INFO  serving url=http://a/mcp server=x`},
		"kinds of values": {zap.DebugLevel, "m", []zap.Field{
			zap.Duration("took", 1500*time.Millisecond), zap.Strings("list", []string{"a", "b c"}), zap.Bool("bool", true), zap.Uint64("n", 1<<63), zap.Any("nothing", nil), zap.String("empty", ""),
			zap.ByteString("bytes", []byte("x")), zap.Time("at", at.UTC()), zap.String("quoted", `say "hi"`),
		}, `09:05:07 DEBUG m took=1.5s list="a, b c" bool=true n=9223372036854775808 nothing=<nil> bytes=x at=` + at.UTC().Format(time.RFC3339) + ` quoted="say \"hi\""`},
		"a problem in a file": {zap.ErrorLevel, "problem in an adapter file", []zap.Field{
			zap.String("file", "a/crm.yaml"), zap.Int("line", 7), zap.String("path", "tools[0]"), zap.String("problem", "no such key"), zap.String("code", "unknown_key"),
		}, `09:05:07 ERROR problem in an adapter file: a/crm.yaml:7: no such key path=tools[0] code=unknown_key`},
		"a problem at no line": {zap.ErrorLevel, "problem in an adapter file", []zap.Field{zap.String("file", "a.yaml"), zap.Int("line", 0), zap.String("problem", "is empty"), zap.String("code", "c")},
			`09:05:07 ERROR problem in an adapter file: a.yaml: is empty code=c`},
		"a list that has a form as text": {zap.WarnLevel, "lost in translation", []zap.Field{zap.String("from", "a"), zap.Array("losses", told{"C02 annotations ×13", "C03\nicons ×1"})},
			`09:05:07 WARN  lost in translation: C02 annotations ×13, C03\nicons ×1 from=a`},
		"other objects": {zap.InfoLevel, "m", []zap.Field{zap.Any("contract", struct{ A, B string }{"x", ""}), zap.Any("of", map[string]any{"k": 1})}, `09:05:07 INFO  m: {"A":"x","B":""} of="{\"k\":1}"`},
		"what a message is about": {zap.WarnLevel, "these settings changed and take effect after a restart", []zap.Field{zap.Strings("settings", []string{"listen", "path"})},
			`09:05:07 WARN  these settings changed and take effect after a restart: listen, path`},
		"a line of a process": {zap.InfoLevel, "upstream stderr", []zap.Field{zap.String("line", "ready =)")}, `09:05:07 INFO  upstream stderr: ready =)`},
		"a hostile value": {zap.ErrorLevel, "failed", []zap.Field{
			zap.Error(errors.New("a\r\n09:05:07 INFO  all is fine → run this\x1b[2J\u202egnp\u2028 \xff \u0085\x00")), zap.String("to\nol", "\x1b]0;title\a"),
		}, `09:05:07 ERROR failed: a\r\n09:05:07 INFO  all is fine -> run this\x1b[2J\u202egnp\u2028 \xff \u0085\x00 to\nol=\x1b]0;title\a`},
		"a long error leaves room for what it is about": {zap.WarnLevel, "m", []zap.Field{zap.String("server", "http://a/mcp"), zap.Error(errors.New(long)), zap.String("tool", "search")},
			`09:05:07 WARN  m: ` + long[:129] + `… tool=search`},
		"what to do stands below where it has no room": {zap.WarnLevel, "m", []zap.Field{zap.String("server", "http://a/mcp"), zap.Error(errors.New(long[:109])), zap.String("advice", "write this, and that: http://a/mcp")},
			`09:05:07 WARN  m: ` + long[:109] + ` server=http://a/mcp` + "\n" + `    → write this, and that: http://a/mcp`},
		"a name of what it is about takes no room from it": {zap.WarnLevel, "m", []zap.Field{zap.Error(errors.New(long[:109])), zap.String("tool", "search"), zap.String("advice", "do this, then that thing")},
			`09:05:07 WARN  m: ` + long[:109] + ` tool=search` + "\n" + `    → do this, then that thing`},
		"nor from an error": {zap.WarnLevel, "m", []zap.Field{zap.Error(errors.New(long[:134])), zap.String("tool", "search")}, `09:05:07 WARN  m: ` + long[:134]},
		"both are long": {zap.WarnLevel, "m", []zap.Field{zap.Error(errors.New(long)), zap.String("advice", long+long), zap.String("other", "x")},
			`09:05:07 WARN  m: ` + long[:141] + `…` + "\n" + `    → ` + long[:154] + "\n" + `      ` + long[155:299] + " word word\n" + `      ` + long[:153] + "…"},
		"no spaces": {zap.WarnLevel, "m", []zap.Field{zap.String("advice", "open "+strings.Repeat("日", 120))},
			`09:05:07 WARN  m` + "\n" + `    → open` + "\n      " + strings.Repeat("日", 77) + "\n      " + strings.Repeat("日", 43)},
		"less important fields are left out": {zap.InfoLevel, "m", []zap.Field{zap.String("one", "1"), zap.String("two", long), zap.String("server", "s")}, `09:05:07 INFO  m server=s one=1`},
		"wide characters":                    {zap.InfoLevel, strings.Repeat("日", 100), nil, `09:05:07 INFO  ` + strings.Repeat("日", 72) + "…"},
	} {
		line := textLine(zapcore.Entry{Level: c.level, Time: at, Message: c.message}, c.fields, false)
		if line != c.want+"\n" {
			t.Errorf("%s:\n got  %q\n want %q", name, line, c.want+"\n")
		}
		coloured := textLine(zapcore.Entry{Level: c.level, Time: at, Message: c.message}, c.fields, true)
		if bare := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured, ""); bare != line || coloured == line {
			t.Errorf("%s: coloured: %q", name, coloured)
		}
	}
}

// TestLogAsTextIsNeverTooLong tries numbers and lengths of fields.
func TestLogAsTextIsNeverTooLong(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 39} {
		for _, length := range []int{0, 1, 7, 23, 24, 25, 40, 150, 160, 400} {
			fields := []zap.Field{zap.String("error", strings.Repeat("e", length)), zap.String("advice", strings.Repeat("a", length/2))}
			for i := range n {
				fields = append(fields, zap.String(append(leading, "x", "y")[i%(len(leading)+2)]+strings.Repeat("'", i/11), strings.Repeat("v ", length)))
			}
			line := textLine(zapcore.Entry{Message: strings.Repeat("m", length)}, fields, false)
			lines := strings.Split(strings.TrimSuffix(line, "\n"), "\n")
			for i, one := range lines {
				if columns := uniseg.StringWidth(one); columns > lineColumns || (i > 0) != strings.HasPrefix(one, "    ") || len(lines) > 1+adviceLines {
					t.Fatalf("%d fields of %d: %d columns: %q", n, length, columns, line)
				}
			}
			if !strings.Contains(line, "→ "+strings.Repeat("a", length/2)) && length > 1 && length < 300 {
				t.Fatalf("%d fields of %d: no advice: %q", n, length, line)
			}
		}
	}
}

// TestStackOfAPanicIsReadable checks that a panic on a terminal keeps its stack, without which a report of it says too little.
func TestStackOfAPanicIsReadable(t *testing.T) {
	text := textLine(zapcore.Entry{Level: zap.ErrorLevel, Message: "panic"}, []zap.Field{zap.Any("panic", "x\ny"), zap.ByteString("stack", debug.Stack())}, false)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !strings.HasSuffix(lines[0], ` panic: x\ny`) || !strings.Contains(text, "    github.com/dragoman-proxy/dragoman/cmd/command.TestStackOfAPanicIsReadable(") {
		t.Errorf("%s", text)
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "    ") || uniseg.StringWidth(line) > lineColumns {
			t.Errorf("%q", line)
		}
	}
}

// TestLogFormIsChangedWhileLinesAreWritten as a new configuration does, with fields that a logger has.
func TestLogFormIsChangedWhileLinesAreWritten(t *testing.T) {
	var out strings.Builder
	form := new(logForm)
	log := zap.New(&logCore{zap.InfoLevel, zapcore.AddSync(&out), form, nil}).With(zap.Int("a", 1))
	log.Info("one", zap.Int("b", 2))
	form.set("text")
	log.With(zap.Int("c", 3)).Warn("two")
	form.set("json")
	log.Debug("not this")
	log.Info("three")
	want := `^\{"level":"info","ts":"[^"]+","msg":"one","a":1,"b":2\}
[0-9:]{8} WARN  two a=1 c=3
\{"level":"info","ts":"[^"]+","msg":"three","a":1\}
$`
	if !regexp.MustCompile(want).MatchString(regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(out.String(), "")) {
		t.Error(out.String())
	}
}

// told is a list with a form as text.
type told []string

func (l told) String() string { return strings.Join(l, ", ") }

func (l told) MarshalLogArray(a zapcore.ArrayEncoder) error {
	for range l {
		a.AppendReflected(struct{}{})
	}
	return nil
}
