// Package ops holds what operators and clients are told.
//
//   - host is what all rooms of a running proxy use: the log, memory for large messages, goroutines that end with it;
//   - report logs and counts failures, and decides nothing; clienterror makes the errors that clients get; repeats merges equal
//     lines of the log;
//   - losses logs and counts what translation removes from messages;
//   - metrics has the counters; trace measures where the time of a request goes; telemetry makes spans and sends them.
package ops
