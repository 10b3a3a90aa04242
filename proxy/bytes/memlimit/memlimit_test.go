package memlimit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLimitOfTheControlGroupIsRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"version 2 in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		{"version 2 without a limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"version 2, limited further up", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu:/\n4:memory:/docker/1\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20},
		{"version 1 without a limit", map[string]string{
			"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"nonsense", map[string]string{
			"proc/self/cgroup": "x\n0::/../..\n", "sys/fs/cgroup/memory.max": "many\n"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				at := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := readAt(root); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
