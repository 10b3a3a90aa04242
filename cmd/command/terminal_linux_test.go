package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"
)

// openPTY opens a pseudo terminal with this many columns.
func openPTY(t *testing.T, columns uint16) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn() // with os.File.Fd, Close would wait for a read
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	if failed := raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
		}
	}); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, tty
}

// openTerminal opens a pseudo terminal with this many columns. read returns what was written to it.
func openTerminal(t *testing.T, columns uint16) (tty *os.File, read func() string) {
	t.Helper()
	master, tty := openPTY(t, columns)
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(master) // ends with an error once the other side is closed
		text <- string(all)
	}()
	return tty, func() string {
		tty.Close()
		return strings.ReplaceAll(<-text, "\r\n", "\n")
	}
}

// onTerminal runs a command whose stdout is a terminal.
func onTerminal(t *testing.T, columns uint16, in string, args ...string) string {
	t.Helper()
	tty, read := openTerminal(t, columns)
	cmd := command(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(tty)
	cmd.SetErr(new(bytes.Buffer))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	return read()
}

// TestTransformShowsBothSidesOnATerminal checks that both sides are within the terminal's width, in colours unless
// NO_COLOR is set, and that a server's text cannot control the terminal.
func TestTransformShowsBothSidesOnATerminal(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	write(t, config, `transform: {default_max_tokens: 150}`)
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("line %d of a long answer, 日本語 \x1b[2J and more words", i))
	}
	in := strings.Join(append(lines, "ERROR: the disk is full"), "\n")
	args := []string{"transform", "--config", config}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if out := onTerminal(t, 100, in, args...); !strings.Contains(out, "\x1b[31m") || strings.Contains(out, "\x1b[2J") {
		t.Errorf("no colours, or some of the server's:\n%.500q", out)
	}
	t.Setenv("NO_COLOR", "1")
	for _, width := range []uint16{41, 100, 180} {
		out := onTerminal(t, width, in, args...)
		if strings.Contains(out, "\x1b") {
			t.Errorf("colours: %.300q", out)
		}
		both, only := false, false
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if n := uniseg.StringWidth(line); n > int(width) {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
			both = both || strings.Count(line, "ERROR: the disk") == 2
			only = only || strings.Contains(line, "more lines") && strings.HasSuffix(line, " <")
		}
		if !both || !only || !strings.HasPrefix(out, "before ") {
			t.Errorf("%d columns: a line of both sides is there: %v; that lines are gone: %v\n%.3000s", width, both, only, out)
		}
	}
	if out := onTerminal(t, 30, in, args...); !strings.HasPrefix(out, `{"content":`) {
		t.Errorf("too narrow for two sides: %.200s", out)
	}
	t.Setenv("NO_COLOR", "")
	if out, _, err := run(t.Context(), in, args...); err != nil || !strings.HasPrefix(out, `{"content":`) {
		t.Errorf("no terminal: %v, %.200s", err, out)
	}
}
