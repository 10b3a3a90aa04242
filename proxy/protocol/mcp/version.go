package mcp

import "runtime/debug"

// Version returns the version of this program from its build information.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
