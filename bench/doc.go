// Package bench holds the benchmarks and the allocation tests of the whole; its
// README says what each measures. It has no code of its own: package corpus makes
// the messages, package histogram counts the durations.
package bench
