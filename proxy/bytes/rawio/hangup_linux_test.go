package rawio_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestWhenHungUp checks that the end of a reader is noticed on a pipe and on a socket, and that nothing else is taken for it.
func TestWhenHungUp(t *testing.T) {
	peertest.NoLeaks(t)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "theirs"), os.NewFile(uintptr(pair[1]), "ours")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ read, write *os.File }{"pipe": {r, w}, "socket": {theirs, ours}} {
		called := make(chan struct{})
		stop := rawio.WhenHungUp(c.write, func() { close(called) })
		if _, err := c.write.WriteString("not read yet"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-called:
			t.Errorf("%s: hung up while it is open", name)
		default:
		}
		c.read.Close()
		<-called
		stop()
		c.write.Close()
	}
}

// TestNothingHangsUp checks that the wait ends by stop, and that a file never hangs up.
func TestNothingHangsUp(t *testing.T) {
	peertest.NoLeaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []*os.File{w, file} {
		rawio.WhenHungUp(out, func() { t.Errorf("%s hung up", out.Name()) })()
	}
	for _, f := range []*os.File{r, w, file} {
		f.Close()
	}
}
