// Package children starts the processes of this program, and reaps those that other processes leave to it.
//
// In a container without an init this program is PID 1: a process whose parent has ended becomes its child, and stays a zombie
// until this program waits for it. Waiting for any child (wait4 of -1) would take exit statuses from os/exec, so every process
// that this program starts is started and waited for here, which tells them from the others. On other systems than Linux the
// functions of this package do nothing more than those of os/exec.
package children
