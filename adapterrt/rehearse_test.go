package adapterrt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

func TestGoldenAdapters(t *testing.T) {
	files, _ := filepath.Glob("testdata/*-adapter.md")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		done, problems := Rehearse(path, data, &Options{})
		if len(done) == 0 || file.HasError(problems) {
			t.Fatal(path, len(done), problems)
		}
		for _, r := range done {
			if r.Fault != "" {
				t.Errorf("%s:%d: %s %s", path, r.Line, r.Operation, r.Fault)
			}
		}
	}
}

func TestRehearsalsFindWhatDiffers(t *testing.T) {
	const good = "```golden\n{\"operation\":\"get_status\"}\n-- sends --\nGET https://api.example.com/status\n-- receives --\n200 application/json\n{\"a\": 1}\n-- want --\n{\"success\": true, \"data\": {\"a\":1}}\n```\n"
	text := front("https://api.example.com", status, "trust: {level: untested}", "auth: {type: bearer, token_env: NONE}")
	for _, c := range [][3]string{
		{"", "", ""},
		{"com/status", "com/other", "sends\nGET https://api.example.com/status\nwant\nGET https://api.example.com/other"},
		{`"data": {"a":1}`, `"data": {"a":2}`, `answers`},
		{"-- sends --\nGET https://api.example.com/status\n-- receives --\n200 application/json\n{\"a\": 1}\n", "", "sends a request that the example does not have: GET https://api.example.com/status"},
		{`"get_status"`, `"nope"`, "does not send\nGET https://api.example.com/status\nbut answers\n{\"success\":false,\"error\":{\"code\":\"NOT_FOUND_OPERATION\""},
	} {
		done, problems := Rehearse("test-api-adapter.md", []byte(text+strings.Replace(good, c[0], c[1], 1)), &Options{})
		if len(done) != 1 || file.HasError(problems) || !strings.HasPrefix(done[0].Fault, c[2]) || (c[2] == "") != (done[0].Fault == "") {
			t.Errorf("%q: %+v %v", c[1], done, problems)
		} else if done[0].Line != 14 || done[0].Operation == "" {
			t.Errorf("%+v", done[0])
		}
	}
	for _, c := range [][2]string{{"\n```\n", "\n"}, {"{\"operation", "operation"}, {"-- want --\n", ""}, {"-- sends --\nGET https://api.example.com/status\n", ""}, {"-- receives --\n200 application/json\n{\"a\": 1}\n", ""}} {
		if _, problems := Rehearse("test-api-adapter.md", []byte(text+strings.Replace(good, c[0], c[1], 1)), &Options{}); !file.HasError(problems) {
			t.Errorf("%q passed", c[1])
		}
	}
}

func TestTheStarterFilePassesItsRehearsal(t *testing.T) {
	done, problems := Rehearse("my-api-adapter.md", []byte(present.Starter("my-api")), &Options{StrictFiles: true})
	if len(problems) > 0 || len(done) != 1 || done[0].Fault != "" {
		t.Error(done, problems)
	}
}
