package tests

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// TestACallThatItsProcessDoesNotSurviveSaysWhy: also on a pipe, where the end of the process ends the call, the error has the command and
// what to do.
func TestACallThatItsProcessDoesNotSurviveSaysWhy(t *testing.T) {
	leavesNothing(t)
	const script = `read l; id=${l##*'"id":'}; id=${id%%[,\}]*}
		echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'
		while read l; do case $l in *tools/call*) echo "no licence" >&2; exit 7;; esac; done`
	cfg := config.Default()
	cfg.Upstream.Command = []string{"sh", "-c", script, "sh", "--token", "c4n4ry-token"}
	srv := testServer{Server: newOf(t, cfg, zap.NewNop()), t: t}
	c := srv.pipe()
	c.initialize("2025-06-18", `{}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say(callOne)
	said := gjson.Get(c.hear(), "error.message").String()
	if !strings.HasPrefix(said, "upstream process ended") || !strings.Contains(said, `"no licence" (command: sh -c read l;`) || !strings.HasSuffix(said, "; "+failures.CommandExit.Advice()) || strings.Contains(said, "c4n4ry") {
		t.Error(said)
	}
}
