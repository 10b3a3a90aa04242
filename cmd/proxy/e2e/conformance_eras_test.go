package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// requirements are the scenarios that the suite requires for a revision.
type requirements struct {
	revision string
	scored   []string // of servers
	extra    []string // run and reported, but not required
	client   []string // of clients, except those about OAuth, which do not involve the proxy
}

// requirements reads the requirements from the suite, except those for extensions of the protocol.
func (s suite) requirements(t *testing.T, revision string) requirements {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.main), "..", "requirements", revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Server    []string
		Client    []string
		NotScored []struct{ Scenario, Leg, Reason string } `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	r := requirements{revision: revision, scored: file.Server, client: slices.DeleteFunc(file.Client, func(scenario string) bool {
		return strings.HasPrefix(scenario, "auth/")
	})}
	for _, n := range file.NotScored {
		if n.Leg == "server" && n.Reason != "extension" {
			r.extra = append(r.extra, n.Scenario)
		}
	}
	return r
}

// all returns the names of the scenarios for servers.
func (r requirements) all() []string { return slices.Concat(r.scored, r.extra) }

// meet runs the scenarios against the server at url. The test fails for each check that fails, unless unmet has a
// reason for it, and for each check in unmet that succeeds.
func (s suite) meet(t *testing.T, r requirements, url string, unmet map[string]string) scenarioChecks {
	found := s.against(t, url, "--requirements", r.revision)
	untilFine(t, r.all(), found, unexpected(unmet), func(scenario string) map[string]string {
		return s.against(t, url, "--scenario", scenario, "--spec-version", r.revision)[scenario]
	})
	judge(t, r.all(), found, unmet)
	return found
}

// judge is the part of meet after the scenarios have run.
func judge(t *testing.T, scenarios []string, found scenarioChecks, unmet map[string]string) {
	seen := map[string]bool{}
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			if len(found[scenario]) == 0 {
				t.Fatal("did not run")
			}
			for _, fault := range unexpected(unmet)(scenario, found[scenario]) {
				t.Error(fault)
			}
			for check, status := range found[scenario] {
				seen[scenario+" "+check] = true
				if reason := unmet[scenario+" "+check]; reason != "" {
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
}

// unexpected returns what returns the checks of a scenario that fail without a reason in unmet, or succeed with one.
func unexpected(unmet map[string]string) func(scenario string, checks map[string]string) []string {
	return func(scenario string, checks map[string]string) (faults []string) {
		for check, status := range checks {
			reason := unmet[scenario+" "+check]
			switch good := slices.Index(checkStatuses, status) <= 1; {
			case good && reason != "":
				faults = append(faults, fmt.Sprintf("%s succeeds, though it could not: %s", check, reason))
			case !good && reason == "":
				faults = append(faults, check+": "+status)
			}
		}
		return faults
	}
}

// A script is a server for the tests, in conformance/, written with a published SDK.
type script string

const (
	legacyServer script = "legacy.mjs" // of 2025-11-25: asks during a call by requests to the client
	modernServer script = "modern.mjs" // of 2026-07-28 only: asks by input_required
)

// command returns the command that starts the server.
func (s suite) command(server script, over string) []string {
	return []string{s.node, filepath.Join("conformance", string(server)), string(s.modules), over}
}

// serve starts the server on HTTP until the test ends.
func (s suite) serve(t *testing.T, server script) (url string) {
	args := s.command(server, "http")
	return listening(t, exec.Command(args[0], args[1:]...))
}

// before runs do with the proxy in front of a server. The test fails for errors in the proxy's log.
func (d dragoman) before(t *testing.T, server endpoint, do func(url string)) {
	server.stderr = &output{}
	err := d.serve(t.Context(), streamable, server, []string{"--upstream-transport", string(server.over)}, func(at endpoint) error {
		do(at.url)
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(server.stderr.String()))
	}
	for _, line := range errorLines(server.stderr.String()) {
		t.Errorf("logged: %s", line)
	}
}

// greet makes the same call to a proxy as those scenarios of 2026-07-28 that wait only 600 ms for the answer. A server
// of an older revision has a session for each set of capabilities, and on stdio a process for each session. On a busy
// machine, the start of Node.js alone may take that long.
func greet(t *testing.T, url string) {
	t.Helper()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"conformance-client","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/list")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(answer), `"test_streaming_elicitation"`) {
		t.Fatalf("tools/list: %s, %v\n%.500s", res.Status, err, answer)
	}
}

const (
	hardCodedKey = "the suite wants the question under the key \"user_name\", and the key of a question that a server asks by " +
		"a request of its own can only be the proxy's"
	retryOfNothing = "the suite answers, under the key \"user_name\", a question that it has not been asked, and brings no " +
		"requestState: a server that asks by a request of its own has nothing yet that could be answered"
)

// TestConformanceAcrossEras runs what the suite requires of servers of one era through the proxy, in front of a server
// of the other. It does not run in parallel, nor does the next test: the suite waits only 600 ms for some answers.
func TestConformanceAcrossEras(t *testing.T) {
	testset.Need(t, testset.Peers)
	suite := conformanceSuite(t)
	proxy := build(t)
	for _, c := range []struct {
		revision string
		server   script
		unmet    map[string]string // scenario and check, and why it cannot succeed
	}{
		{"2026-07-28", legacyServer, map[string]string{
			"input-required-result-basic-elicitation sep-2322-elicitation-incomplete":     hardCodedKey,
			"input-required-result-ignore-extra-params sep-2322-ignore-unexpected-params": retryOfNothing,
		}},
		{"2025-11-25", modernServer, nil},
	} {
		set := suite.requirements(t, c.revision)
		for _, over := range []transport{streamable, stdio} {
			t.Run(fmt.Sprintf("%s in front of %s over %s", c.revision, c.server, over), func(t *testing.T) {
				server := endpoint{over: over, command: suite.command(c.server, "stdio")}
				if over != stdio {
					server.url = suite.serve(t, c.server)
				}
				proxy.before(t, server, func(url string) {
					if c.server == legacyServer {
						greet(t, url)
					}
					found := suite.meet(t, set, url, c.unmet)
					t.Logf("%d scenarios for servers of %s, of them %d scored; checks by status:\n%s",
						len(found), set.revision, len(set.scored), lines(found, set.all()))
				})
			})
		}
	}
}

// TestConformanceWithinTheModernEra runs what the suite requires of servers of 2026-07-28 against such servers, written
// with two published SDKs, directly and through the proxy: what succeeds directly must succeed through the proxy.
func TestConformanceWithinTheModernEra(t *testing.T) {
	testset.Need(t, testset.Peers)
	suite := conformanceSuite(t)
	proxy := build(t)
	set := suite.requirements(t, "2026-07-28")
	goSDK := buildConformanceServer(t)
	for _, c := range []struct {
		name    string
		url     string
		command []string // the same server on stdio
		differs map[string]string
	}{
		{"TypeScript", suite.serve(t, modernServer), suite.command(modernServer, "stdio"), nil},
		{"Go", goSDK.serve(t, "-stateless=true"), []string{string(goSDK)}, map[string]string{
			"server-sse-streams-functional": plainAnswer,
		}},
	} {
		direct := suite.against(t, c.url, "--requirements", set.revision)
		for _, over := range []transport{streamable, stdio} {
			t.Run(fmt.Sprintf("%s over %s", c.name, over), func(t *testing.T) {
				road := conformanceRoad{differs: c.differs}
				proxy.before(t, endpoint{over: over, url: c.url, command: c.command}, func(url string) {
					through := suite.against(t, url, "--requirements", set.revision)
					untilFine(t, set.all(), through, func(scenario string, checks map[string]string) []string {
						return road.faults(direct[scenario], checks)
					}, func(scenario string) map[string]string {
						return suite.against(t, url, "--scenario", scenario, "--spec-version", set.revision)[scenario]
					})
					for _, scenario := range set.all() {
						t.Run(scenario, func(t *testing.T) {
							if len(direct[scenario]) == 0 {
								t.Fatal("did not run")
							}
							road.compare(t, direct[scenario], through[scenario])
						})
					}
					t.Logf("%d scenarios, of them %d scored\ndirectly:\n%s\nthrough the proxy:\n%s",
						len(set.all()), len(set.scored), lines(direct, set.all()), lines(through, set.all()))
				})
			})
		}
	}
}

// lines returns a line with the result of each scenario.
func lines(found scenarioChecks, scenarios []string) string {
	var b strings.Builder
	for _, name := range scenarios {
		fmt.Fprintf(&b, "%-48s %s\n", name, summary(found[name]))
	}
	return b.String()
}

const noHandshake = "the revision has no initialize, so no client sends it"

// TestConformanceOfTheProxyAsAClient runs what the suite requires of clients of 2026-07-28. The client is a published
// one that speaks to the proxy over a pipe. If the client is of 2025-11-25, the suite's servers see only what the proxy
// makes; if it is of 2026-07-28, the proxy makes the headers and leaves out tools.
func TestConformanceOfTheProxyAsAClient(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	suite := conformanceSuite(t)
	set := suite.requirements(t, "2026-07-28")
	proxy := build(t)
	const begins = "it is not known yet that the server has no handshake, and so the first that it gets is one"
	configured := []string{"--upstream-version", "2026-07-28"}
	unsent := map[string]string{
		"http-standard-headers ClientMcpMethodHeader_initialize":                noHandshake,
		"http-standard-headers ClientMcpMethodHeader_notifications_initialized": noHandshake,
	}
	for _, c := range []struct {
		name   string
		client string // the package
		flags  []string
		unmet  map[string]string
	}{
		{"a client with a handshake, a server that is configured", "sdk", configured, unsent},
		{"a client without, a server that is configured", "client", configured, unsent},
		{"a client with a handshake, a server to find out about", "sdk", nil, map[string]string{
			"request-metadata ClientSendsVersionHeader":                             begins,
			"request-metadata ClientPopulatesMeta":                                  begins,
			"request-metadata ClientSendsClientInfo":                                begins,
			"http-standard-headers ClientMcpMethodHeader_initialize":                begins,
			"http-standard-headers ClientMcpMethodHeader_notifications_initialized": noHandshake,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := []string{suite.node, filepath.Join("conformance", "client.mjs"), string(suite.modules), c.client, string(proxy)}
			alone := func(scenario string) map[string]string {
				return suite.client(t, scenario, set.revision, append(command, c.flags...))
			}
			// One process for what the newest revision added, because the start of the suite takes longer than most of its scenarios.
			together := suite.clients(t, append(command, c.flags...), "--suite", "draft", "--spec-version", set.revision)
			found := scenarioChecks{}
			for _, scenario := range set.client {
				if found[scenario] = together[scenario]; found[scenario] == nil {
					found[scenario] = alone(scenario)
				}
			}
			untilFine(t, set.client, found, unexpected(c.unmet), alone)
			judge(t, set.client, found, c.unmet)
			t.Logf("%d scenarios for clients of %s; checks by status:\n%s", len(found), set.revision, lines(found, set.client))
		})
	}
}

// client runs a scenario for clients with the client that command starts. The address of the scenario's server is the
// client's last argument.
func (s suite) client(t *testing.T, scenario, revision string, command []string) map[string]string {
	args := []string{"--scenario", scenario}
	if revision != "extension" {
		args = append(args, "--spec-version", revision)
	}
	found := s.clients(t, command, args...)
	if len(found) != 1 || found[scenario] == nil {
		t.Fatalf("%s: the results are of %q", scenario, slices.Sorted(maps.Keys(found)))
	}
	return found[scenario]
}

// clients runs the scenarios for clients that args select, several at once.
func (s suite) clients(t *testing.T, command []string, args ...string) scenarioChecks {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, s.node, append([]string{s.main, "client", "--command", strings.Join(command, " "), "--timeout", suiteTime, "-o", dir}, args...)...)
	run.WaitDelay = 5 * time.Second
	out, err := run.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: some check failed
		t.Fatalf("%s: %v\n%s", args, err, tail(string(out)))
	}
	found := scenarioChecks{}
	for _, folder := range []string{".", "auth"} {
		files, err := filepath.Glob(filepath.Join(dir, folder, "*", "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.ToSlash(filepath.Join(folder, scenarioName(filepath.Base(filepath.Dir(file)))))
			found[name] = readChecks(t, file, func(c suiteCheck) string { return c.Name })
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s: no results\n%s", args, tail(string(out)))
	}
	return found
}
