package tests

import (
	"runtime"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestTheLogNamesAVariableThatTheServerDidNotGet: the log's advice is about what the server asks for, without its value.
func TestTheLogNamesAVariableThatTheServerDidNotGet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	t.Setenv("SOME_API_KEY", "of-the-user")
	cfg := config.Default()
	cfg.Upstream.Command = []string{"sh", "-c", `[ "$SOME_API_KEY" ] || { echo "Error: SOME_API_KEY is not set" >&2; exit 1; }`}
	core, logs := observer.New(zap.WarnLevel)
	front := testServer{newOf(t, cfg, zap.New(core)), t, nil}
	front.exchange(t.Context(), "POST", "", initialize("2025-06-18", `{}`))
	const want = "the server did not get SOME_API_KEY: pass it with -e SOME_API_KEY (upstream.env)"
	if logs.FilterField(zap.String("advice", want)).Len() == 0 {
		t.Errorf("%v", logs.All())
	}
}
