package e2e

import (
	"bytes"
	"os"
	"path/filepath"
)

// leftovers returns the processes that still run and have the argument mark.
func leftovers(mark string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte("\x00"+mark+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
