// Package bench holds the benchmarks and the allocation tests of the module; its
// README says what each measures. It has only tests: package corpus makes
// the messages, package histogram counts the durations.
package bench
