//go:build unix

package storetest

import "syscall"

// Pause stops the server, so that it answers nothing and keeps its connections.
func (r *Redis) Pause() { _ = r.process.Process.Signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (r *Redis) Continue() { _ = r.process.Process.Signal(syscall.SIGCONT) }
