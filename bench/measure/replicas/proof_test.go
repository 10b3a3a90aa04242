package replicas

import (
	"os"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestReplicasWithAStore is a short version of "measure replicas".
func TestReplicasWithAStore(t *testing.T) {
	testset.Need(t, testset.Measurements, engineCommand)
	binary, err := binary(t)
	if err != nil {
		t.Fatal(err)
	}
	p := Proof{Binary: binary, Dir: t.TempDir(), Time: 10 * time.Second, KillEvery: 2500 * time.Millisecond, Clients: 1, Out: t.Output()}
	results, err := p.Run(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", results)
}

func binary(t *testing.T) (string, error) {
	if built := os.Getenv("DRAGOMAN_TEST_BINARY"); built != "" {
		return built, nil
	}
	return process.Build(t.Context(), t.TempDir(), "../../../cmd/dragoman")
}
