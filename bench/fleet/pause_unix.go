//go:build unix

package fleet

import "syscall"

// pause stops the engine's process without ending it: its connections stay, and nothing answers.
func (e *Engine) pause() error { return e.signal(syscall.SIGSTOP) }

// resume lets the process go on.
func (e *Engine) resume() error { return e.signal(syscall.SIGCONT) }

func (e *Engine) signal(s syscall.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return syscall.Kill(e.process.PID(), s)
}
