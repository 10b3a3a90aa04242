package command

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// TestAReportWhoseReaderLeavesEndsQuietly, as behind "| head".
func TestAReportWhoseReaderLeavesEndsQuietly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a pipe ends with another error")
	}
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reads.Close()
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0], "config", "print")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), beDragoman+"=1"), writes, &said
	err = cmd.Run()
	writes.Close()
	if err != nil || said.Len() > 0 {
		t.Errorf("%v: %s", err, &said)
	}
}
