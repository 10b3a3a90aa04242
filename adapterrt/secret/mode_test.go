package secret

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOpenToOthers: a file with a secret is for its owner; the group may read one of another owner, as volumes of Kubernetes have them.
func TestOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		mode, ofAnother os.FileMode // the mode, and what of it is too much for a file of another owner
		can             string      // what others can do
	}{{0o600, 0, ""}, {0o400, 0, ""}, {0o440, 0, "read"}, {0o640, 0, "read"}, {0o644, 0o004, "read"}, {0o660, 0o020, "read or change"},
		{0o604, 0o004, "read"}, {0o444, 0o004, "read"}, {0o666, 0o026, "read or change"}, {0o620, 0o020, "change"}, {0o711, 0, ""}} {
		if err := os.Chmod(path, m.mode); err != nil {
			t.Fatal(err)
		}
		what, do := OpenToOthers(path)
		if exposed := m.mode&0o066 != 0; exposed != (what != "") || exposed && (!strings.Contains(what, path+" has mode 0") || !strings.HasSuffix(what, ": other users of this machine can "+m.can+" it") ||
			!strings.HasPrefix(do, "chmod 600 "+path)) {
			t.Errorf("%o: %q, %q", m.mode, what, do)
		}
		if os.Geteuid() != 0 {
			continue
		}
		if err := os.Chown(path, 1, 1); err != nil {
			t.Fatal(err)
		}
		if what, _ := OpenToOthers(path); (m.ofAnother != 0) != (what != "") {
			t.Errorf("%o of another owner: %q", m.mode, what)
		}
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if what, _ := OpenToOthers(path + "-gone"); what != "" {
		t.Error(what)
	}
}
