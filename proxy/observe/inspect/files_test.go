package inspect

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
)

// countedFiles counts how often a file is opened, and fails to open one of them.
type countedFiles struct {
	files  fstest.MapFS
	opened *atomic.Int32
}

func (f countedFiles) Open(name string) (fs.File, error) {
	if name == "." {
		return f.files.Open(name)
	}
	f.opened.Add(1)
	if name == "lost.js" {
		return nil, errors.New("the disk is gone")
	}
	return f.files.Open(name)
}

// TestFilesAreReadWhenTheyAreAskedFor, once: compressing all of them took half of the time to start.
func TestFilesAreReadWhenTheyAreAskedFor(t *testing.T) {
	var opened atomic.Int32
	text := []byte("export const many = " + strings.Repeat("1 + ", 200) + "1")
	s := serve(t, func(o *Options) {
		o.Files = countedFiles{files: fstest.MapFS{"page.html": {Data: []byte("<!doctype html>")}, "many.js": {Data: text}, "lost.js": {}}, opened: &opened}
	})
	if n := opened.Load(); n != 0 {
		t.Fatalf("%d files were opened before the first request", n)
	}
	for range 3 {
		res := s.get(Path+"many.js", "Accept-Encoding: identity")
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || string(body) != string(text) || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%d %v %.100q, %v", res.StatusCode, res.Header, body, err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the file was opened %d times", n)
	}
	res := s.get(Path + "lost.js")
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 500 || !strings.Contains(string(body), "the disk is gone") || res.Header.Get("ETag") != "" {
		t.Errorf("a lost file: %d %v %q", res.StatusCode, res.Header, body)
	}
}
