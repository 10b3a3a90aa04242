package openapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestTagsOfImportedOperations: in a file with several tags, each operation has its own; otherwise they are those of the file.
func TestTagsOfImportedOperations(t *testing.T) {
	const paths = `/a/x: {get: {tags: [pets]}}, /b/x: {get: {tags: [orders, money]}}, /c/x: {get: {}}`
	for split, want := range map[openapi.Split][]string{
		openapi.SplitNone: {"get_a_x: pets", "get_b_x: orders money", "get_c_x: "},
		openapi.SplitTag:  {"get_a_x: pets", "get_b_x: orders money", "get_c_x: "},
	} {
		in, err := parse(t, "d", []byte(document(paths, "")), "").Import(openapi.Options{Split: split})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range in.Files {
			a, problems := file.Parse("", f.Front(), &file.Options{})
			if a == nil {
				t.Fatal(problems)
			}
			for _, op := range a.Operations {
				got = append(got, op.Name+": "+strings.Join(op.Tags, " "))
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", split, d)
		}
	}
	if front := string(importOf(t, document(`/a: {get: {tags: [pets]}}, /b: {get: {tags: [pets]}}`, "")).Files[0].Front()); !strings.Contains(front, "\ntags: [pets]\n") || strings.Contains(front, "      tags:") {
		t.Error(front)
	}
}
