package origin

import (
	"net/url"
	"path/filepath"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// Name returns the server's name for log lines, without credentials, query and arguments.
func Name(u config.Upstream) string {
	if len(u.Command) > 0 {
		return filepath.Base(u.Command[0])
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, OmitHost: at.OmitHost}).String()
}
