package setup

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// SilenceLimits holds how long to wait for the server, by method.
type SilenceLimits [wire.NumMethods]config.TimeLimit

func newSilenceLimits(cfg config.Config) *SilenceLimits {
	p := new(SilenceLimits)
	for m := range p {
		p[m] = config.TimeLimit{FirstByte: cfg.Upstream.SilenceTimeout, Silence: cfg.Upstream.SilenceTimeout}
	}
	for name, limit := range cfg.Limits.Time {
		at := &p[wire.MethodOf([]byte(name))]
		if limit.FirstByte > 0 {
			at.FirstByte = limit.FirstByte
		}
		if limit.Silence > 0 {
			at.Silence = limit.Silence
		}
	}
	return p
}

// Left returns how much longer to wait for the response to a request of this method that began then. heard is when
// the last message of the server was received.
func (p *SilenceLimits) Left(m wire.Method, began, heard, now time.Time) time.Duration {
	limit := p[m]
	if heard.After(began) {
		return limit.Silence - now.Sub(heard)
	}
	return limit.FirstByte - now.Sub(began)
}
