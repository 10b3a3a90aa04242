//go:build !linux

package children

import "os/exec"

// Start is cmd.Start.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

// Wait is cmd.Wait.
func Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// Run is cmd.Run.
func Run(cmd *exec.Cmd) error { return cmd.Run() }

// ReapOrphans does nothing.
func ReapOrphans() {}
