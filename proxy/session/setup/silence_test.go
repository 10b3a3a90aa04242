package setup

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestHowMuchTimeIsLeft(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.SilenceTimeout = time.Minute
	cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": {Silence: time.Hour}, "other": {FirstByte: time.Second}}
	s := newSilenceLimits(cfg)
	began := time.Now()
	for _, c := range []struct {
		method wire.Method
		heard  time.Duration // since the call began
		want   time.Duration // 10 s after it began
	}{
		{wire.Ping, -time.Second, 50 * time.Second},
		{wire.Ping, 5 * time.Second, 55 * time.Second},
		{wire.ToolsCall, -time.Second, 50 * time.Second},
		{wire.ToolsCall, 5 * time.Second, time.Hour - 5*time.Second},
		{wire.OtherMethod, -time.Second, -9 * time.Second},
		{wire.OtherMethod, 5 * time.Second, 55 * time.Second},
	} {
		got := s.Left(c.method, began, began.Add(c.heard), began.Add(10*time.Second))
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
