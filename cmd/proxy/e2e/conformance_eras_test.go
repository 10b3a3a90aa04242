package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// requirements are the scenarios for servers that the suite demands of a revision.
type requirements struct {
	revision string
	scored   []string
	extra    []string // run, and told, but not demanded
}

// requirements reads them from the suite. Those of extensions of the protocol are left out.
func (s suite) requirements(t *testing.T, revision string) requirements {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.main), "..", "requirements", revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Server    []string
		NotScored []struct{ Scenario, Leg, Reason string } `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	r := requirements{revision: revision, scored: file.Server}
	for _, n := range file.NotScored {
		if n.Leg == "server" && n.Reason != "extension" {
			r.extra = append(r.extra, n.Scenario)
		}
	}
	return r
}

// all are the names of the scenarios.
func (r requirements) all() []string { return slices.Concat(r.scored, r.extra) }

// meet runs the scenarios against the server at url and fails for each check that does not succeed, but for those that
// unmet has a reason for, and for each of those that does.
func (s suite) meet(t *testing.T, r requirements, url string, unmet map[string]string) scenarioChecks {
	found := s.against(t, url, "--requirements", r.revision)
	seen := map[string]bool{}
	for _, scenario := range r.all() {
		t.Run(scenario, func(t *testing.T) {
			if len(found[scenario]) == 0 {
				t.Fatal("did not run")
			}
			for check, status := range found[scenario] {
				reason := unmet[scenario+" "+check]
				seen[scenario+" "+check] = true
				switch good := slices.Index(checkStatuses, status) <= 1; {
				case good && reason != "":
					t.Errorf("%s succeeds, though it could not: %s", check, reason)
				case !good && reason == "":
					t.Errorf("%s: %s", check, status)
				case !good:
					t.Logf("%s: %s, because %s", check, status, reason)
				}
			}
		})
	}
	for _, check := range slices.Sorted(maps.Keys(unmet)) {
		if !seen[check] {
			t.Errorf("%s was not made, and there is a reason why it should not succeed: %s", check, unmet[check])
		}
	}
	return found
}

// A script is a server of the tests in conformance/, written with a published SDK.
type script string

const (
	legacyServer script = "legacy.mjs" // of 2025-11-25, asks in the middle of a call by requests of its own
	modernServer script = "modern.mjs" // of 2026-07-28 and nothing else, asks by input_required
)

// command is how it is started.
func (s suite) command(server script, over string) []string {
	return []string{s.node, filepath.Join("conformance", string(server)), string(s.modules), over}
}

// serve starts it on HTTP until the test ends.
func (s suite) serve(t *testing.T, server script) (url string) {
	args := s.command(server, "http")
	node := exec.Command(args[0], args[1:]...)
	stderr := &output{}
	node.Stderr = stderr
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = node.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not listen: %v\n%s", server, err, tail(stderr.String()))
	}
	return strings.TrimSpace(line)
}

// inFrontOf runs do with the proxy in front of a server, over HTTP or stdio, and fails for errors in its log.
func (d dragoman) inFrontOf(t *testing.T, s suite, server script, over transport, do func(url string)) {
	to := endpoint{over: over, command: s.command(server, "stdio"), stderr: &output{}}
	if over != stdio {
		to.url = s.serve(t, server)
	}
	err := d.serve(t.Context(), streamable, to, []string{"--upstream-transport", string(over)}, func(at endpoint) error {
		do(at.url)
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(to.stderr.String()))
	}
	for _, line := range errorLines(to.stderr.String()) {
		t.Errorf("logged: %s", line)
	}
}

const (
	hardCodedKey = "the suite wants the question under the key \"user_name\", and the key of a question that a server asks by " +
		"a request of its own can only be the proxy's"
	argumentHeaders = "headers that repeat arguments are not held against them in front of a server with a handshake, which " +
		"reads the arguments alone; the suite does not score this"
	retryOfNothing = "the suite answers, under the key \"user_name\", a question that it has not been asked, and brings no " +
		"requestState: a server that asks by a request of its own has nothing yet that could be answered"
)

// TestConformanceAcrossEras runs what the suite demands of servers of one era through the proxy, in front of a server of
// the other.
func TestConformanceAcrossEras(t *testing.T) {
	if testing.Short() {
		t.Skip("installs Node.js 22 and the conformance suite")
	}
	suite := conformanceSuite(t)
	proxy := build(t)
	for _, c := range []struct {
		revision string
		server   script
		unmet    map[string]string // scenario and check, and why it cannot succeed
	}{
		{"2026-07-28", legacyServer, map[string]string{
			"input-required-result-basic-elicitation sep-2322-elicitation-incomplete":         hardCodedKey,
			"input-required-result-ignore-extra-params sep-2322-ignore-unexpected-params":     retryOfNothing,
			"http-custom-header-server-validation sep-2243-server-reject-invalid-param-chars": argumentHeaders,
			"http-custom-header-server-validation sep-2243-server-reject-param-mismatch":      argumentHeaders,
			"http-custom-header-server-validation sep-2243-server-validate-param-match":       argumentHeaders,
		}},
		{"2025-11-25", modernServer, nil},
	} {
		set := suite.requirements(t, c.revision)
		for _, over := range []transport{streamable, stdio} {
			t.Run(fmt.Sprintf("%s in front of %s over %s", c.revision, c.server, over), func(t *testing.T) {
				proxy.inFrontOf(t, suite, c.server, over, func(url string) {
					report(t, set, suite.meet(t, set, url, c.unmet))
				})
			})
		}
	}
}

// report says how each scenario ended.
func report(t *testing.T, set requirements, found scenarioChecks) {
	var lines []string
	for _, name := range set.all() {
		lines = append(lines, fmt.Sprintf("%-48s %s", name, summary(found[name])))
	}
	t.Logf("%d scenarios for servers of %s, of them %d scored; checks by status:\n%s",
		len(lines), set.revision, len(set.scored), strings.Join(lines, "\n"))
}
