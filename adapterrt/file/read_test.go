package file

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for size, want := range map[int]string{MaxFile: "", MaxFile + 1: "larger than"} {
		if err := os.WriteFile(path, bytes.Repeat([]byte{'x'}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := ReadFile(path)
		if want == "" && (err != nil || len(data) != size) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %d read, %v", size, len(data), err)
		}
	}
}
