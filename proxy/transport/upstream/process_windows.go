package upstream

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
)

// ownGroup keeps Ctrl-C of the console from a child, which dragoman stops in order.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// group is a child in a job, to which all processes belong that the child starts from
// then on. The job ends when its handle is closed, and so when this process ends at the
// latest.
type group struct {
	process *os.Process
	job     windows.Handle // 0 if there is none: then only the child itself can be ended
}

// adopt makes a job for a child that was just started.
func adopt(p *os.Process) group {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return group{process: p}
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))) //nolint:gosec // as the system requires
	if err == nil {
		var assigned error
		err = p.WithHandle(func(h uintptr) { assigned = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
		if err == nil {
			err = assigned
		}
	}
	if err != nil {
		windows.CloseHandle(job) //nolint:errcheck // there is nothing in it
		return group{process: p}
	}
	return group{p, job}
}

// terminate returns false, because this system cannot ask a child to end.
func (g group) terminate() bool { return false }

// kill ends a child and the processes that it has started.
func (g group) kill() {
	if g.job == 0 || windows.TerminateJobObject(g.job, 1) != nil {
		g.process.Kill() //nolint:errcheck // it may be gone
	}
}

// wait waits for the child's end, and ends the processes that it has left behind.
func (g group) wait(cmd *exec.Cmd) error {
	err := children.Wait(cmd)
	g.kill()
	return err
}

// reap does nothing: there are no zombies on this system.
func (group) reap() {}

// release closes the job. It is called once, and no method is called after it.
func (g group) release() {
	if g.job != 0 {
		windows.CloseHandle(g.job) //nolint:errcheck // there is no remedy
	}
}
