package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestDoctorFindsPublishedServersWell runs dragoman doctor against published servers of both eras, over each transport: no
// check may fail, and the lists through dragoman must be the server's.
func TestDoctorFindsPublishedServersWell(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	bin := build(t)
	several := newSeveral(t)
	defer several.wait()
	for _, c := range []cell{
		{server: m.everything("2025.9.25", "2025-06-18", all...), up: withSSE},
		{server: m.everything("2026.8.31", "2025-11-25", all...), up: stdio},
		{server: m.everything("2026.8.31", "2025-11-25", all...), up: streamable},
		{server: m.typescriptServer2(newest), up: streamable},
		{server: goServer(newest), up: stdio},
		{server: goServerOfBothEras(false), up: streamable},
	} {
		result := several.start(func(ctx context.Context) (o outcome) {
			for range tries { // doctor waits 10 s for each check, which the start of Node.js alone may take on a busy machine
				if o = examine(ctx, bin, c.server, c.up); o.err == nil {
					break
				}
			}
			return o
		})
		t.Run(fmt.Sprintf("%s over %s", c.server.name, c.up), func(t *testing.T) {
			if o := result(); o.err != nil {
				t.Errorf("%v\n%s", o.err, o.log)
			}
		})
	}
}

// examine runs doctor on a server.
func examine(ctx context.Context, bin dragoman, s *server, over transport) (o outcome) {
	to, stop, err := s.open(s.revision, over, "doctor")
	if err != nil {
		return outcome{err: err}
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := bin.args("doctor", to, "--json", "--listen", "127.0.0.1:0")
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	o = outcome{log: string(out), err: err}
	var report struct {
		Lines []struct{ Check, Mark, What string }
	}
	if o.err == nil {
		o.err = json.Unmarshal(out, &report)
	}
	compared := false
	for _, l := range report.Lines {
		compared = compared || l.Check == "through dragoman" && l.Mark == "ok"
	}
	if o.err == nil && !compared {
		o.err = errors.New("the lists were not compared")
	}
	return o
}

// TestPublishedServersThatRefuseTheHost runs probe and doctor at servers that take requests for another host only: both must say so, and
// nothing of credentials.
func TestPublishedServersThatRefuseTheHost(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	bin := build(t)
	for _, check := range []string{"app", "transport", "2"} {
		base, stop, err := onLoopback("the server", "peers/hosts.mjs", string(m), check)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, command := range []string{"probe", "doctor"} {
			args := bin.args(command, endpoint{over: streamable, url: base + "/mcp"}, "--header", "Authorization: Bearer canary-canary")
			out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
			if text := string(out); err == nil || !strings.Contains(text, "Invalid Host") || !strings.Contains(text, "the server takes requests for certain host names only") {
				t.Errorf("%s, %s: %v\n%s", check, command, err, text)
			}
		}
	}
}
