package mcp

import (
	"runtime/debug"
	"strings"
	"sync"
)

// Version returns the version of this program from its build information.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// UserAgent returns the User-Agent of dragoman's own requests.
var UserAgent = sync.OnceValue(func() string {
	return "dragoman/" + strings.Trim(Version(), "()") // which a token must not contain
})
