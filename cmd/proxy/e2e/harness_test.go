package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestLeftoversFindsAChild checks that leftovers would find a child process of the proxy that was not ended.
func TestLeftoversFindsAChild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("leftovers are looked for in /proc")
	}
	mark := markOf(t.Name())
	if pids := leftovers(mark); pids != nil {
		t.Fatalf("before: %s", pids)
	}
	child := exec.Command(os.Args[0], goServerArg, "2024-11-05", "get-roots-list", mark)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if pids := leftovers(mark); len(pids) != 1 {
		t.Errorf("found %s, want one process", pids)
	}
	stdin.Close()
	if err := child.Wait(); err != nil {
		t.Errorf("the server, its client gone: %v", err)
	}
	if pids := leftovers(mark); pids != nil {
		t.Errorf("after: %s", pids)
	}
}

// TestPublishedPeersCoverEveryPairOfTransports checks that the chosen cells have, over each of the nine pairs of
// transports, clients and servers of at least two revisions.
func TestPublishedPeersCoverEveryPairOfTransports(t *testing.T) {
	type pair struct{ down, up transport }
	clients, servers := map[pair]map[string]bool{}, map[pair]map[string]bool{}
	for _, down := range all {
		for _, up := range all {
			clients[pair{down, up}], servers[pair{down, up}] = map[string]bool{}, map[string]bool{}
		}
	}
	for _, c := range everyOneMeetsEveryOther(publishedClients(""), publishedServers("")) {
		p := pair{c.down, c.up}
		clients[p][c.client.revision], servers[p][c.server.revision] = true, true
	}
	for p := range clients {
		if len(clients[p]) < 2 || len(servers[p]) < 2 {
			t.Errorf("%s to %s: clients of %v, servers of %v", p.down, p.up, clients[p], servers[p])
		}
	}
}

// TestConformancePageListsTheCellsThatAreRun checks that docs/conformance.md lists exactly the cells that are run.
func TestConformancePageListsTheCellsThatAreRun(t *testing.T) {
	page, err := os.ReadFile("../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	cells := everyOneMeetsEveryOther(publishedClients(""), publishedServers(""))
	passed := slices.Repeat([]bool{true}, len(cells))
	rows := strings.Split(strings.TrimSpace(table(cells, passed)), "\n")[2:]
	for _, row := range rows {
		_, runs, _ := strings.Cut(row[1:], "|") // behind the client's name
		runs = strings.NewReplacer(" translated", " T", ";", ",").Replace(runs)
		if !strings.Contains(string(page), "|"+runs+"\n") {
			t.Errorf("not in docs/conformance.md: %s", row)
		}
	}
	for test, cells := range map[string][]cell{"TestLegacyClientsOfModernServers": legacyToModern(""), "TestModernPeers": modernToModern("")} {
		if says := fmt.Sprintf("`%s`, %d runs", test, len(cells)); !strings.Contains(string(page), says) {
			t.Errorf("docs/conformance.md does not say %s", says)
		}
	}
	if n := len(cells); !strings.Contains(string(page), fmt.Sprintf("`TestPublishedPeers`, %d runs", n)) {
		t.Errorf("docs/conformance.md does not say that there are %d runs", n)
	}
}

// TestGoServerSendsEveryAddition checks that the Go SDK's server sends the newest clients everything that is in the tables
// of additions, which older clients must not get, except what that SDK cannot send.
func TestGoServerSendsEveryAddition(t *testing.T) {
	elsewhere := []string{ // server-everything 2026.8.31 has the first two, and no SDK the rest
		"capabilities.tasks", "*.tools.*.execution",
		"serverInfo.description", "messages.*.content.resource._meta", "*.params.requestedSchema.$schema",
	}
	o := direct(t.Context(), goSDK("2025-11-25"), goServer("2025-11-25"), streamable)
	if o.err != nil {
		t.Fatal(o.err)
	}
	for _, a := range additions {
		found := false
		for _, e := range o.steps {
			found = methodOf()[e.Step] == a.method && remove(plain(e.Result), a.path) || found
		}
		if found == slices.Contains(elsewhere, a.path) {
			t.Errorf("%s %s: sent is %v", a.method, a.path, found)
		}
	}
}

// TestWhichLogLinesCountAsErrors checks which log lines count as errors.
func TestWhichLogLinesCountAsErrors(t *testing.T) {
	log := "{\"level\":\"info\",\"msg\":\"serving\"}\nServer started\n{\"level\":\"error\",\"msg\":\"x\"}\npanic: y\n{\"level\":\"warn\"}\n"
	if got, want := errorLines(log), []string{`{"level":"error","msg":"x"}`, "panic: y"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestScenariosRunAgainOnlyUntilFine checks that a scenario with a fault runs again until it has none, that one whose fault is always
// there keeps it, and that the others do not run again.
func TestScenariosRunAgainOnlyUntilFine(t *testing.T) {
	found := scenarioChecks{"fine": {"a": "SUCCESS"}, "late": {"a": "FAILURE"}, "wrong": {"a": "FAILURE"}}
	runs := map[string]int{}
	untilFine(t, []string{"fine", "late", "wrong"}, found, unexpected(nil), func(scenario string) map[string]string {
		if runs[scenario]++; scenario == "late" && runs[scenario] == 2 {
			return map[string]string{"a": "SUCCESS"}
		}
		return map[string]string{"a": "WARNING"}
	})
	if want := map[string]int{"late": 2, "wrong": tries - 1}; !maps.Equal(runs, want) {
		t.Errorf("runs %v, want %v", runs, want)
	}
	if found["fine"]["a"] != "SUCCESS" || found["late"]["a"] != "SUCCESS" || found["wrong"]["a"] != "WARNING" {
		t.Errorf("found %v", found)
	}
}
