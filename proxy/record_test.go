package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
)

// TestARecordingBeginsBeforeAnyClient: the file is there, names the configuration by a digest, and is not replaced.
func TestARecordingBeginsBeforeAnyClient(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	toFile := func(cfg *config.Config) { cfg.Record.File = name }
	srv := front(t, newFake(nil), toFile)
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	f, closer, err := recording.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	other := config.Default()
	other.Upstream.Headers = map[string]string{"Authorization": "Bearer a"}
	if h := f.Header(); len(h.Configuration) != 16 || h.Version == "" || h.Configuration == digest(&other) {
		t.Errorf("header %+v", h)
	}
	err = front(t, newFake(nil), toFile).Record()
	if err == nil || !strings.Contains(err.Error(), "record.file: "+name+" exists") {
		t.Errorf("the second recording: %v", err)
	}
}

func TestWithoutAFileNothingIsRecorded(t *testing.T) {
	srv := front(t, newFake(nil))
	if err := srv.Record(); err != nil || srv.observer.Watched() {
		t.Errorf("%v, watched %v", err, srv.observer.Watched())
	}
}

func TestTheTimeMayBeInTheNameOfARecording(t *testing.T) {
	dir := t.TempDir()
	srv := front(t, newFake(nil), func(cfg *config.Config) { cfg.Record.File = filepath.Join(dir, "r-{time}.jsonl") })
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "r-20") || strings.Contains(entries[0].Name(), "{") {
		t.Errorf("%v, %v", entries, err)
	}
}
