package fit

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTextIsAsTheTerminalLeavesIt(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":              {"a\nb\r\nc\r\n", "a\nb\r\nc\r\n"},
		"colours":            {"\x1b[1;31merror\x1b[0m: no\n\x1b[38;5;12mb\x1b[m", "error: no\nb"},
		"progress":           {"get  1%\rget 50%\rget 100%\ndone\n", "get 100%\ndone\n"},
		"a shorter text":     {"loading 100\rdone\n", "doneing 100\n"},
		"erased":             {"loading\r\x1b[Kdone\n", "done\n"},
		"erased whole":       {"loading\x1b[2K\rdone\n", "done\n"},
		"erased to the left": {"abc\x1b[1K\rx\n", "x\n"},
		"up and over":        {"a: pulling\nb: pulling\n\x1b[2A\x1b[2Ka: done\n\x1b[2Kb: done\n", "a: done\nb: done\n"},
		"up, in the column":  {"abc\ndef\x1b[1A!\n", "abc!\ndef"},
		"backspaces":         {"abc\b\bx\n", "axc\n"},
		"a title":            {"\x1b]0;user@host\x07$ ls\n", "$ ls\n"},
		"a link":             {"\x1b]8;;https://x.example\x1b\\text\x1b]8;;\x1b\\\n", "text\n"},
		"a character set":    {"\x1b(Bok\n", "ok\n"},
		"modes":              {"\x1b[?25la\x1b[?25h\n\x1b=\x1b>b", "a\nb"},
		"to a column":        {"a\x1b[5Gb\n", "a   b\n"},
		"cleared":            {"old\nold\n\x1b[2J\x1b[Hnew\n", "new\n"},
		"line ends":          {"\x1b[1ma\x1b[0m\r\nb\r\n", "a\nb\n"},
		"broken off":         {"a\x1b[31", "a"},
		"broken off, a link": {"a\x1b]8;;x\nb", "a\nb"},
		"other letters":      {"läuft 1%\rläuft 2%\n", "läuft 2%\n"},
		"nothing":            {"\x1b[0m", ""},
	} {
		if got := string(asShown([]byte(c.in))); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestTerminalIsBounded checks texts that ask for a lot of room or work.
func TestTerminalIsBounded(t *testing.T) {
	for name, one := range map[string]string{
		"far to the right": "\x1b[65000Cx\n", "to a far column": "\x1b[999999999Gx\r", "up": "\x1b[9999Ax\n", "written over": "x\r", "deleted": "abc\r\x1b[1P", "cleared": "a\n\x1b[2J", "open": "\x1b]", "lines": "\n\x1b[0m",
	} {
		in := []byte(strings.Repeat(one, 100_000))
		began := time.Now()
		out := asShown(in)
		if len(out) > 3*len(in) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %d bytes became %d in %v", name, len(in), len(out), time.Since(began))
		}
	}
}

func FuzzTerminal(f *testing.F) {
	for _, s := range []string{"a\x1b[2A\x1b[Kb\r\n", "\x1b[1;31mx\x1b[0m\b\b", "\x1b]8;;x\x1b\\y\x07", "e\u0301\rx", "\x1b[3P\x1b[J\x1b[2J"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if !utf8.ValidString(in) {
			return
		}
		out := asShown([]byte(in))
		if !utf8.Valid(out) || len(out) > 2*len(in) {
			t.Fatalf("%q became %q", in, out)
		}
		if again := asShown(out); string(again) != string(out) {
			t.Fatalf("%q became %q, and that %q", in, out, again)
		}
	})
}

// TestTerminalOutputIsCutAsShown checks that escapes are not paid for, in a text and in a text of a document.
func TestTerminalOutputIsCutAsShown(t *testing.T) {
	var log strings.Builder
	for i := range 100 {
		for range 20 {
			log.WriteString("\rbuilding \x1b[32m" + strings.Repeat("#", i%20) + "\x1b[0m")
		}
		log.WriteString("\r\x1b[Kstep done\n")
	}
	log.WriteString("\x1b[1;31merror\x1b[0m: out of disk\n")
	out, _ := fitted([]byte(log.String()), 2000)
	if want := strings.Repeat("step done\n", 100) + "error: out of disk\n"; string(out) != want {
		t.Errorf("%q", out)
	}
	quoted, _ := fitted([]byte(`{"stdout":"`+strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x1b", `\u001b`).Replace(log.String())+`"}`), 2000)
	if strings.Contains(string(quoted), "u001b") || !strings.Contains(string(quoted), `step done\nerror: out of disk\n"}`) {
		t.Errorf("%.300q", quoted)
	}
}
