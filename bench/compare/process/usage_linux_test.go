package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestProcessNameWithParenthesesIsParsed(t *testing.T) {
	stat, err := parseStat([]byte("7 (a) b (c) S 42 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 5 0 1000 900000 321 0"))
	if err != nil {
		t.Fatal(err)
	}
	if stat[statParent] != 42 || stat[statUser] != 150 || stat[statSystem] != 50 || stat[statPages] != 321 {
		t.Errorf("parent %d, user %d, system %d, pages %d", stat[statParent], stat[statUser], stat[statSystem], stat[statPages])
	}
	for _, bad := range []string{"", "7", "7 (a) S 1", strings.Repeat("x ", 40)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestUsageSeesFilesAndChildren(t *testing.T) {
	before, err := usage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	after, err := usage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.Files <= before.Files || after.Children != before.Children+1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if after.Resident < 1<<20 {
		t.Errorf("%d bytes resident", after.Resident)
	}
}

func TestProcessorTimeIsThatOfUsage(t *testing.T) {
	for range 3_000_000 { // some processor time
		_ = os.Getpid()
	}
	before, err := usage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	got, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after, err := usage(os.Getpid())
	if err != nil || got < before.CPU-2*tick || got > after.CPU+2*tick {
		t.Errorf("%v, not between %v and %v: %v", got, before.CPU, after.CPU, err)
	}
	if _, err := processorTime(1<<22 + 1); err == nil {
		t.Error("the time of a process that does not exist")
	}
}
