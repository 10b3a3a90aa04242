package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// scenarioChecks are the results of the conformance suite: the status of every check, by scenario.
type scenarioChecks map[string]map[string]string

// checkStatuses are the statuses of a check, the best first. INFO says that a server does not have
// something that is optional.
var checkStatuses = []string{"SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE"}

// A conformanceRoad is a way from the suite to the server.
type conformanceRoad struct {
	name  string
	over  transport // to the server
	flags []string
	// Checks whose result differs from that without the proxy, and the reason why that is correct.
	differs map[string]string
}

const (
	resumedForTheClient = "the proxy takes the broken stream up again by itself, so the answer comes on the stream of the POST"
	plainAnswer         = "a call whose answer comes first is answered with plain JSON, not with a stream of one event"
	noEventsOnAPipe     = "a server on a pipe has no streams that it could close early"
	noEventIDs          = "the server closes a stream of 2025-06-18 early though that revision knows no event to resume from, so the call has no answer: 502"
)

// TestConformance runs the server scenarios that the official conformance suite has for 2025-11-25 against the Go SDK's
// conformance server, directly and through the proxy: what passes directly must pass through the proxy.
func TestConformance(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	suite := conformanceSuite(t)
	server := buildConformanceServer(t)
	proxy := build(t)
	const sessions = "-stateless=false"

	everything := []string{"--suite", "all", "--spec-version", "2025-11-25"}
	at := server.serve(t, sessions)
	direct := suite.against(t, at, everything...)
	alone := func(url string) func(string) map[string]string {
		return func(scenario string) map[string]string {
			return suite.against(t, url, "--scenario", scenario, "--spec-version", "2025-11-25")[scenario]
		}
	}
	untilFine(t, slices.Sorted(maps.Keys(direct)), direct, func(_ string, checks map[string]string) (faults []string) {
		for check, status := range checks {
			if status == "FAILURE" {
				faults = append(faults, check)
			}
		}
		return faults
	}, alone(at))
	if len(direct) < 30 {
		t.Fatalf("the suite has %d scenarios, where 33 are known", len(direct))
	}
	for name, checks := range direct {
		for check, status := range checks {
			if status == "FAILURE" {
				t.Errorf("%s fails without the proxy: %s", name, check)
			}
		}
	}

	roads := []conformanceRoad{
		{name: "http", over: streamable, differs: map[string]string{
			"server-sse-disconnect-resume": resumedForTheClient,
		}},
		{name: "stdio", over: stdio, differs: map[string]string{
			"server-sse-priming-event":      noEventsOnAPipe,
			"server-sse-retry-field":        noEventsOnAPipe,
			"server-sse-disconnect-resume":  noEventsOnAPipe,
			"server-sse-streams-functional": plainAnswer,
		}},
		{name: "http, the server of 2025-06-18", over: streamable, flags: []string{"--upstream-version", "2025-06-18"}, differs: map[string]string{
			"server-sse-post-request":       noEventIDs,
			"server-sse-priming-event":      noEventIDs,
			"server-sse-retry-field":        noEventIDs,
			"server-sse-disconnect-resume":  noEventIDs,
			"server-sse-streams-functional": plainAnswer,
		}},
		{name: "stdio, the server of 2025-06-18", over: stdio, flags: []string{"--upstream-version", "2025-06-18"}, differs: map[string]string{
			"server-sse-priming-event":      noEventsOnAPipe,
			"server-sse-retry-field":        noEventsOnAPipe,
			"server-sse-disconnect-resume":  noEventsOnAPipe,
			"server-sse-streams-functional": plainAnswer,
		}},
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		lines = append(lines, fmt.Sprintf("%-32s direct: %s", name, summary(direct[name])))
	}
	for _, r := range roads {
		t.Run(r.name, func(t *testing.T) {
			to := endpoint{over: r.over, command: []string{string(server)}, stderr: &output{}}
			if r.over == streamable {
				to.url = server.serve(t, sessions)
			}
			var through scenarioChecks
			err := proxy.serve(t.Context(), streamable, to, append(r.flags, "--upstream-transport", string(r.over)), func(at endpoint) error {
				through = suite.against(t, at.url, everything...)
				untilFine(t, slices.Sorted(maps.Keys(direct)), through, func(scenario string, checks map[string]string) []string {
					return r.faults(direct[scenario], checks)
				}, alone(at.url))
				return nil
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(to.stderr.String()))
			}
			for i, name := range slices.Sorted(maps.Keys(direct)) {
				t.Run(name, func(t *testing.T) { r.compare(t, direct[name], through[name]) })
				lines[i] += fmt.Sprintf("; %s: %s", r.name, summary(through[name]))
			}
			for _, line := range errorLines(to.stderr.String()) {
				t.Errorf("logged: %s", line)
			}
		})
	}
	t.Logf("%d scenarios, checks by status:\n%s", len(direct), strings.Join(lines, "\n"))
}

// tries is how often a scenario runs at most until it has no fault. The suite waits only 500 to 1500 ms for some answers, and
// dragoman 10 s for a document of an authorization server: a busy machine may not have given them by then. The Go SDK's server
// forgets what a session is subscribed to when any subscriptions/listen of that session ends, and on stdio all are of one session: if
// it learns of that end after the next subscriptions/listen, the suite hears of no change. A fault that is always there is in each run.
const tries = 5

// untilFine runs each scenario again for which faults returns something, by itself. The checks of its last run are those in found.
func untilFine(t *testing.T, scenarios []string, found scenarioChecks, faults func(scenario string, checks map[string]string) []string, run func(scenario string) map[string]string) {
	t.Helper()
	for _, scenario := range scenarios {
		for n := 1; n < tries; n++ {
			wrong := faults(scenario, found[scenario])
			if len(wrong) == 0 {
				break
			}
			t.Logf("%s runs again, after %d of %d runs: %s", scenario, n, tries, strings.Join(wrong, "; "))
			found[scenario] = run(scenario)
		}
	}
}

// compare reports the faults of a scenario as errors, and logs the checks that differ for a reason.
func (r conformanceRoad) compare(t *testing.T, direct, through map[string]string) {
	for _, fault := range r.faults(direct, through) {
		t.Error(fault)
	}
	for check, want := range direct {
		if got, reason := through[check], r.differs[check]; got != want && reason != "" {
			t.Logf("%s: %q, and directly %q, because %s", check, got, want, reason)
		}
	}
}

// faults returns every check that is missing or has a worse result than without the proxy, unless the road has a reason for
// it, and every check with a reason whose result is the same as without the proxy.
func (r conformanceRoad) faults(direct, through map[string]string) (faults []string) {
	for check, status := range through {
		if slices.Index(checkStatuses, status) > max(1, slices.Index(checkStatuses, direct[check])) && r.differs[check] == "" {
			faults = append(faults, check+": "+status)
		}
	}
	for check, want := range direct {
		switch got, reason := through[check], r.differs[check]; {
		case want == "SUCCESS" && got != want && reason == "":
			faults = append(faults, fmt.Sprintf("%s: %q, and directly %q", check, got, want))
		case got == want && reason != "":
			faults = append(faults, fmt.Sprintf("%s: %q as directly, though it could not: %s", check, got, reason))
		}
	}
	return faults
}

// summary counts a scenario's checks by status.
func summary(checks map[string]string) string {
	if len(checks) == 0 {
		return "none"
	}
	n := map[string]int{}
	for _, status := range checks {
		n[status]++
	}
	var parts []string
	for _, status := range checkStatuses {
		if n[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[status], status))
		}
	}
	return strings.Join(parts, " ")
}

// suiteTime is how long one scenario may take, in milliseconds.
var suiteTime = fmt.Sprint(patience.Milliseconds())

// suite is the installed conformance suite, with a Node.js that is new enough for it.
type suite struct {
	modules    modules
	node, main string
}

// conformanceSuite installs the suite and Node.js. It skips the test if there is no npm, or if Node.js is too old and
// npm has none for this system.
func conformanceSuite(t *testing.T) suite {
	testset.Need(t, testset.Peers, "npm")
	m, err := installConformance()
	if err != nil {
		t.Fatal(err)
	}
	s := suite{modules: m, main: filepath.Join(string(m), "@modelcontextprotocol", "conformance", "dist", "index.js")}
	for _, node := range append([]string{"node"}, installedNodes(m)...) { // "node" is one of installedNodes if keepCompiled has made it
		out, err := exec.Command(node, "-p", "Number(process.versions.node.split('.')[0]) >= 22").Output()
		if err == nil && strings.TrimSpace(string(out)) == "true" {
			s.node = node
			return s
		}
	}
	t.Skipf("the conformance suite needs Node.js 22, which npm does not have for %s/%s", runtime.GOOS, runtime.GOARCH)
	return s
}

// installedNodes returns the Node.js that npm has for this system, and the one of the system.
func installedNodes(m modules) []string {
	here, _ := filepath.Glob(filepath.Join(string(m), "node-*-*", "bin", "node*"))
	return append(here, "node")
}

// against runs the scenarios that args select against the server at url.
func (s suite) against(t *testing.T, url string, args ...string) scenarioChecks {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, s.node, append([]string{s.main, "server", "--url", url, "--timeout", suiteTime, "-o", dir}, args...)...)
	run.WaitDelay = 5 * time.Second
	out, err := run.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: some check failed
		t.Fatalf("the conformance suite: %v\n%s", err, tail(string(out)))
	}
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := scenarioChecks{}
	for _, file := range files {
		found[scenarioName(filepath.Base(filepath.Dir(file)))] = readChecks(t, file, func(c suiteCheck) string { return c.ID })
	}
	return found
}

// suiteCheck is one check of a scenario.
type suiteCheck struct{ ID, Name, Status string }

// readChecks reads the results of a scenario: the status of each check, or the worst if a check was made several times.
func readChecks(t *testing.T, file string, name func(suiteCheck) string) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var checks []suiteCheck
	if err := json.Unmarshal(text, &checks); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	found := map[string]string{}
	for _, c := range checks {
		if before, ok := found[name(c)]; !ok || slices.Index(checkStatuses, before) < slices.Index(checkStatuses, c.Status) {
			found[name(c)] = c.Status
		}
	}
	return found
}

// scenarioName returns the scenario of a folder such as server-ping-2026-08-31T10-00-00-000Z.
func scenarioName(folder string) string {
	name := strings.TrimPrefix(folder, "server-")
	return name[:max(0, len(name)-len("-2006-01-02T15-04-05-000Z"))]
}

// conformanceServer is the path of the Go SDK's conformance server.
type conformanceServer string

var conformanceBinary = sync.OnceValues(changedConformanceServer)

// buildConformanceServer builds the server, once for all tests.
func buildConformanceServer(t *testing.T) conformanceServer {
	t.Helper()
	bin, err := conformanceBinary()
	if err != nil {
		t.Fatal(err)
	}
	return conformanceServer(bin)
}

// changedConformanceServer builds the published server with two changes that its flags do not offer: it keeps the
// events that it sent, so that streams can be resumed, and it prints the address at which it listens.
func changedConformanceServer() (bin string, err error) {
	where, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(where)), "conformance", "everything-server", "main.go"))
	if err != nil {
		return "", err
	}
	for _, change := range [][2]string{
		{"Stateless: *stateless}", "Stateless: *stateless, EventStore: mcp.NewMemoryEventStore(nil)}"},
		{"\t\"net/http\"\n", "\t\"net\"\n\t\"net/http\"\n"},
		{"log.Fatal(http.ListenAndServe(*httpAddr, handler))",
			"l, err := net.Listen(\"tcp\", *httpAddr)\nif err != nil {\nlog.Fatal(err)\n}\nfmt.Println(l.Addr())\nlog.Fatal(http.Serve(l, handler))"},
	} {
		if bytes.Count(source, []byte(change[0])) != 1 {
			return "", fmt.Errorf("the conformance server has changed: where is %q?", change[0])
		}
		source = bytes.Replace(source, []byte(change[0]), []byte(change[1]), 1)
	}
	main := filepath.Join(binaries, "conformance.go")
	if err := os.WriteFile(main, source, 0o644); err != nil {
		return "", err
	}
	return goBuild("conformance-server", main)
}

// serve starts the server on HTTP until the test ends. Only with -stateless=true does it serve clients without a session.
func (s conformanceServer) serve(t *testing.T, mode string) (url string) {
	return "http://" + listening(t, exec.Command(string(s), "-http", "127.0.0.1:0", mode))
}

// listening starts a server that ends with the test, and returns the first thing that it prints: the address at which
// it listens.
func listening(t *testing.T, server *exec.Cmd) string {
	stderr := &output{}
	server.Stderr = stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = server.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not listen: %v\n%s", server.Args[0], err, tail(stderr.String()))
	}
	return strings.TrimSpace(line)
}
