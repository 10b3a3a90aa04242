package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// runFake runs a fake server before a fake proxy that changes text, with raw clients.
func runFake(t *testing.T, manner, change string) *result {
	t.Helper()
	return runFakeWith(t, rawKinds(), manner, change)
}

func runFakeWith(t *testing.T, kinds []kind, manner, change string) *result {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Name: "fake", NPM: "fake@1", Run: []string{self, "fake-server"}, Env: map[string]string{
		"FAKE_SERVER": manner, "FAKE_PROXY": change, "GORACE": "atexit_sleep_ms=0", // each process would wait a second at its end
	}}
	r := &runner{cache: cache(t.TempDir()), dragoman: self, kinds: kinds, drivers: &nodetest.Drivers{Folder: "../../" + peersFolder}, pace: pace{start: 20 * time.Second, answer: 20 * time.Second, quiet: 5 * time.Millisecond}}
	if manner == "hangs" {
		r.pace.answer = 50 * time.Millisecond
	}
	defer r.drivers.End()
	return r.run(t.Context(), s)
}

func keys(res *result) (all []string) {
	for _, f := range res.fresh {
		all = append(all, f.key())
	}
	return all
}

func TestEqualAnswersAreNoDifference(t *testing.T) {
	t.Parallel()
	res := runFake(t, "", "nothing=nothing")
	if res.failed != "" || len(res.fresh) > 0 || !res.modern || res.revision != newestHandshake || res.tried["tools"] != 1 {
		t.Errorf("%s; differences %q", res.line(), keys(res))
	}
	if err := verdict([]*result{res}); err != nil {
		t.Error(err)
	}
}

func TestADifferenceIsReported(t *testing.T) {
	t.Parallel()
	res := runFake(t, "", "Greets=Insults for 2025-11-25")
	if got := keys(res); !slices.Equal(got, []string{"stdio 2025-11-25 tools/list.result.tools[].description changed"}) {
		t.Errorf("differences %q; %s", got, res.failed)
	}
	if verdict([]*result{res}) != errDiffers {
		t.Error("the exit code is 0")
	}
	l := &list{Servers: []*server{res.server, {Name: "other", NPM: "other@2"}}}
	const row = "| other: `other` | 2 | 2025-11-25 | stdio |  | nothing |"
	text := string(page(l, rawKinds(), []*result{res}, []byte("# Old\n"+row+"\n| gone: `gone` | 1 |\n")))
	if !strings.Contains(text, "`tools/list.result.tools[].description` changed") {
		t.Error("the page does not name it")
	}
	if !strings.Contains(text, "\n"+row+"\n") || strings.Contains(text, "gone") || !strings.Contains(text, "\n2 published") {
		t.Errorf("the page's other rows: %s", text)
	}
}

// TestAPromisedDifferenceIsNotReported removes a title for a client of 2024-11-05, as rule C01 does, and for one of 2025-11-25, as none does.
func TestAPromisedDifferenceIsNotReported(t *testing.T) {
	t.Parallel()
	const change = `"title":"Greet",= for `
	if res := runFake(t, "", change+"2024-11-05"); len(res.fresh) > 0 || res.promised["C01"] != 1 || res.failed != "" {
		t.Errorf("differences %q, promised %v; %s", keys(res), res.promised, res.failed)
	}
	if res := runFake(t, "", change+"2025-11-25"); len(res.fresh) != 1 {
		t.Errorf("differences %q; %s", keys(res), res.failed)
	}
}

// TestPublishedClients plays the published clients: equal answers are no difference, what the proxy changes for one of them is, as its
// methods return it, and so is a result that it cannot read.
func TestPublishedClients(t *testing.T) {
	testset.Need(t, testset.Peers, "node", "npm")
	lock, err := nodetest.ReadLock("../../" + peersFolder)
	if err == nil {
		err = lock.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	published, err := publishedKinds(lock)
	if err != nil {
		t.Fatal(err)
	}
	all := append(rawKinds(), published...)
	if res := runFakeWith(t, all, "", "nothing=nothing"); len(res.fresh) > 0 || res.failed != "" {
		t.Errorf("differences %q; %s", res.report(), res.failed)
	}
	one, two := published[0].name, published[1].name
	for change, want := range map[string][]string{
		"Greets=Insults for 2025-11-25": {"2025-11-25 tools/list.result.tools[].description changed", one + " tools/list.result.tools[].description changed"},
		"Greets=Insults for 2026-07-28": {"2026-07-28 tools/list.result.tools[].description changed", two + " tools/list.result.tools[].description changed"},
	} {
		res := runFakeWith(t, all, "", change)
		if got := keys(res); len(got) != 2 || got[0] != "stdio "+want[0] || got[1] != "stdio "+want[1] {
			t.Errorf("%s: differences %q; %s", change, res.report(), res.failed)
		}
	}
	res := runFakeWith(t, all, "", `"description":"Greets"="description":7 for 2025-11-25`)
	if got := keys(res); !slices.Contains(got, "stdio "+one+" tools/list.refused added") {
		t.Errorf("differences %q; %s", res.report(), res.failed)
	}
}

func TestAServerThatHangsOrCrashesIsReported(t *testing.T) {
	t.Parallel()
	for manner, want := range map[string]string{"hangs": "no answer", "crashes": "the connection ended: out of order"} {
		res := runFake(t, manner, "nothing=nothing")
		if !strings.Contains(res.failed, want) {
			t.Errorf("%s: %q", manner, res.failed)
		}
		if verdict([]*result{res}) == nil {
			t.Errorf("%s: the exit code is 0", manner)
		}
	}
}

func TestNothingIsLeftOfARun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	f, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	p, err := f.start(t.Context(), []string{"sleep", "1000"}, nil)
	if err != nil {
		t.Skip(err)
	}
	if got := f.left(); !slices.Equal(got, []int{p.cmd.Process.Pid}) {
		t.Errorf("left are %v", got)
	}
	f.remove()
	<-p.ended
	if _, err := os.Stat(f.root); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
}

func TestARunHasNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("A_SECRET", "x")
	f := folder{root: "/root-of-the-run", port: 7}
	if env := strings.Join(f.environment(map[string]string{"PORT": "{port}", "DIR": "{work}"}), " "); strings.Contains(env, "SECRET") ||
		!strings.Contains(env, "HOME=/root-of-the-run/home") || !strings.Contains(env, "PORT=7") || !strings.Contains(env, "DIR=/root-of-the-run/work") {
		t.Error(env)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, ""},
		{"members", `{"a":1,"b":2,"c":3}`, `{"a":1,"b":5,"d":4}`, "b changed, c removed, d added"},
		{"elements", `{"a":[1,2,3]}`, `{"a":[1,5]}`, "a[] removed, a[] removed, a[] added"},
		{"elements at one place", `{"a":[1,2]}`, `{"a":[1,5]}`, "a[] changed"},
		{"by name", `{"a":[{"name":"x","v":1},{"name":"y"}]}`, `{"a":[{"name":"y"},{"name":"x","v":2}]}`, "a[].v changed, a reordered"},
		{"by URI, where only one has names", `{"a":[{"uri":"u"}]}`, `{"a":[{"uri":"u","name":"n"}]}`, "a[].name added"},
		{"kinds", `{"a":[]}`, `{"a":{}}`, "a changed"},
	} {
		var got []string
		for _, d := range compare(parsed(t, c.before), parsed(t, c.after)) {
			got = append(got, d.place+" "+d.what)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, not %q", c.name, text, c.want)
		}
	}
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWhatIsUnsteadyIsNotCompared(t *testing.T) {
	direct, again := parsed(t, `{"a":{"b":1,"c":1},"ab":1}`), parsed(t, `{"a":{"b":2,"c":1},"ab":1}`)
	through := parsed(t, `{"a":{"b":{"d":3},"c":2},"ab":2}`)
	var got []string
	for _, d := range steady(compare(direct, through), compare(direct, again)) {
		got = append(got, d.at)
	}
	if want := []string{"a.c", "ab"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestABlockThatRepeatsOthersIsADifference(t *testing.T) {
	direct := map[string]any{"result": parsed(t, `{"content":[{"type":"image","data":"aGVsbG8gd29ybGQ="}],"structuredContent":{"content":[]}}`)}
	d := difference{at: "tools/call 1 x.result.content[1]", place: "tools/call 1 x.result.content[]", what: "added"}
	for text, want := range map[string]bool{`{\"more\": 1}`: true, `{\"content\":[{\"data\":\"aGVsbG8gd29ybGQ=\"}]}`: false} {
		d.after = parsed(t, `{"type":"text","text":"`+text+`"}`)
		if _, ok := promised(sight{d, "2025-03-26", false, direct}); ok != want {
			t.Errorf("%s: promised: %t", text, ok)
		}
	}
}

func TestASessionThatBreaksIsADifferenceAcrossEras(t *testing.T) {
	answers := func(steps string) map[string]transcript {
		tr := transcript{answers: parsed(t, steps).(map[string]any)}
		return map[string]transcript{newestHandshake: tr}
	}
	const session = `{"hello":{"result":{"protocolVersion":"2025-11-25"}},"tools/list":{"result":{}},"ping":{"result":{}}}`
	whole := trial{kinds: rawKinds(), direct: answers(session), again: answers(session), through: answers(session)}
	whole.through[modernRevision] = transcript{answers: parsed(t, `{"hello":{"result":{}}}`).(map[string]any), broken: "the connection ended"}
	got := whole.differences(way{transport: "stdio"}, nil)
	if len(got) != 1 || got[0].key() != "stdio 2026-07-28 session added" {
		t.Errorf("%v", got)
	}
}

func TestTheListIsReadable(t *testing.T) {
	l, err := readList(servers)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"servers: [{name: a, npm: a@^1.0.0, run: [a]}]", "servers: [{name: a, npm: a, run: [a]}]", "servers: [{name: a, run: [a]}]",
		"servers: [{name: a, npm: a@1, run: [a], flag: 1}]", "servers: [{name: a, npm: a@1}]",
		"servers: [{name: a, npm: a@1, run: [a]}, {name: a, npm: b@1, run: [a]}]",
	} {
		if _, err := readList([]byte(bad)); err == nil {
			t.Errorf("no error: %s", bad)
		}
	}
	if len(l.Servers) < 50 {
		t.Errorf("only %d servers", len(l.Servers))
	}
}

func TestTheSameTextDrawsTheSameServers(t *testing.T) {
	l, err := readList(servers)
	if err != nil {
		t.Fatal(err)
	}
	names := func(by string) (all []string) {
		for _, s := range draw(l.Servers, 5, by) {
			if len(s.ways()) != 1 {
				t.Errorf("%s has several transports", s.Name)
			}
			all = append(all, s.Name+s.ways()[0].transport)
		}
		for _, k := range drawClients(rawKinds(), by) {
			all = append(all, k.name)
		}
		return all
	}
	if a, b := names("a"), names("a"); len(a) != 5+3 || !slices.Equal(a, b) {
		t.Errorf("%q, then %q", a, b)
	}
	if slices.Equal(names("a"), names("b")) {
		t.Error("other text draws the same")
	}
	for _, r := range []string{newestHandshake, modernRevision} {
		if !slices.Contains(names("a"), r) {
			t.Errorf("the client of %s is left out", r)
		}
	}
	if got := draw(l.Servers[:2], 5, "a"); len(got) != 2 {
		t.Errorf("%d of two are drawn", len(got))
	}
}

func TestNothingIsInstalledUnlessAsked(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	o := options{cache: cache(t.TempDir()), dragoman: os.Args[0], parallel: 1, limit: time.Minute, only: "filesystem"}
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	t.Chdir("../..")
	if err := o.run(context.Background()); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(string(o.cache)); len(left) > 0 {
		t.Error("something is in the cache")
	}
}
