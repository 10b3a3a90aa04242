// Package sources has the tests that read the sources of all packages: which file uses what of which, what comments say, which
// maps and lists stand beside a lock, and that no path leads out of the repository.
package sources
