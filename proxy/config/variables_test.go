package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestVariablesInUseAreSettings checks that each DRAGOMAN_ variable that the benchmarks, the
// soak or the deployment files set belongs to a setting. Otherwise they would not start.
func TestVariablesInUseAreSettings(t *testing.T) {
	known := map[string]bool{EnvFile: true, "DRAGOMAN_TOKEN": true} // the latter is for ${DRAGOMAN_TOKEN}
	cfg := Default()
	cfg.EachSetting(func(path string, _ reflect.Value) error {
		known[EnvPrefix+strings.ToUpper(strings.ReplaceAll(path, ".", "_"))] = true
		return nil
	})
	set := regexp.MustCompile(`\b(DRAGOMAN_[A-Z0-9_]+)=`)
	found := 0
	for _, dir := range []string{"../../bench", "../../deploy"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if d.IsDir() {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range set.FindAllSubmatch(text, -1) {
				found++
				if !known[string(m[1])] {
					t.Errorf("%s sets %s, which is no setting", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("%d variables", found)
	}
}
