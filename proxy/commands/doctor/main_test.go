package doctor

import (
	"os"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestMain(m *testing.M) {
	peertest.WaitTogether()
	os.Exit(m.Run())
}
