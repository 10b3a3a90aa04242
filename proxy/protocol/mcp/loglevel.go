package mcp

import "slices"

// LogLevel is the severity of a log message; 0 is the least severe. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels.
type LogLevel int

// NoLogLevel stands for no level.
const NoLogLevel LogLevel = -1

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogLevels returns the names of all levels, least severe first.
func LogLevels() []string { return slices.Clone(logLevels) }

// LogLevelOf returns the level with this name, or [NoLogLevel] if there is none.
func LogLevelOf(name string) LogLevel { return LogLevel(slices.Index(logLevels, name)) }

// String returns the name of a level, or "" for [NoLogLevel].
func (l LogLevel) String() string {
	if l < 0 || int(l) >= len(logLevels) {
		return ""
	}
	return logLevels[l]
}
