package tests

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

// TestAStoreThatIsAwayAtStartIsOneWarning: it names the store and what to do; what is missing meanwhile is told below a warning.
func TestAStoreThatIsAwayAtStartIsOneWarning(t *testing.T) {
	waits(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("ab", sealed.KeyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL = "http://127.0.0.1:1/mcp"
		cfg.Session.KeyFile, cfg.Store.URL, cfg.Store.Password = file, "redis://127.0.0.1:1/0", "c4n4ry-of-the-store"
		cfg.Store.Timeout = 5 * time.Second // longer than a loaded machine takes to refuse a connection
	})
	const down = "the store is down: calls go on, replicas may not find each other, what needs it fails"
	eventually(t, "a warning", func() bool { return client.logs.FilterMessage(down).Len() > 0 })
	for _, l := range client.logs.All() {
		is := l.ContextMap()
		switch {
		case l.Message == down:
			if advice, _ := is["advice"].(string); is["url"] != "redis://127.0.0.1:1/0" || (is["error"] != "127.0.0.1:1: connection refused" && runtime.GOOS != "windows") || !strings.HasPrefix(advice, "check store.url; does it run") {
				t.Errorf("%v", is)
			}
		case strings.Contains(l.Message, "other replicas") && l.Level >= zap.InfoLevel:
			t.Errorf("a second line: %s", l.Message)
		case l.Level >= zap.WarnLevel && is["cause"] == nil:
			t.Errorf("logged: %s %v", l.Message, is)
		}
	}
}
