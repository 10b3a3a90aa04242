package tests

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLossesOfRealMessagesAreCounted(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}`)
	}))
	srv := front(t, f)
	r := srv.post(srv.initialize("2024-11-05"), listOne)
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
	if n := counted(t, srv.Metrics, "dragoman_losses_total", "from=2025-11-25", "to=2024-11-05", "rule=C01", "level=warn"); n != 1 {
		t.Errorf("counted %v", n)
	}
	at := srv.logs.FilterMessage("lost in translation").FilterLevelExact(zap.WarnLevel).All()
	if len(at) != 1 || !strings.Contains(fmt.Sprint(at[0].ContextMap()["losses"]), "path:result.tools[0].title rule:C01") {
		t.Errorf("%+v", at)
	}
}
