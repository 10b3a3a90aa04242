package process

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestUsageSeesTimeMemoryFilesAndChildren(t *testing.T) {
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
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		_ = os.Getpid()
	}
	after, err := usage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.Files <= before.Files || after.Children != before.Children+1 || after.CPU <= before.CPU {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if after.Resident < 1<<20 || after.Peak < after.Resident/2 {
		t.Errorf("%d bytes resident, at most %d", after.Resident, after.Peak)
	}
	if _, err := processorTime(1<<22 + 1); err == nil {
		t.Error("the time of a process that does not exist")
	}
}
