package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestCommandsSayThatTheyWait: a command that reads stdin says so on a terminal, where it would seem to do nothing, and nowhere else.
func TestCommandsSayThatTheyWait(t *testing.T) {
	master, tty := openPTY(t, 80)
	defer master.Close()
	defer tty.Close()
	cmd := command([]string{"tokens"})
	var out, errs bytes.Buffer
	cmd.SetIn(tty)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if _, err := master.WriteString("hello\n\x04"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.ExecuteContext(t.Context()); err != nil || out.String() != "2\n" || errs.String() != "dragoman: this reads what you type until Ctrl-D; usage: dragoman tokens [--model NAME] < text\n" {
		t.Errorf("%q, %q, %v", out.String(), errs.String(), err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer r.Close()
	errs.Reset()
	sayWaiting(&errs, r, atTerminal)
	sayWaiting(&errs, strings.NewReader(""), atTerminal)
	if errs.Len() > 0 {
		t.Errorf("on a pipe: %q", errs.String())
	}
	if sayWaiting(&errs, tty, atTerminal); errs.String() != "dragoman: "+atTerminal+"\n" {
		t.Errorf("%q", errs.String())
	}
}
