package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime reads the clock of the process's processor time, which counts nanoseconds; see clock_getcpuclockid(3).
func processorTime(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED, of all threads
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &ts); err != nil {
		return 0, fmt.Errorf("process %d: processor time: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

func usage(pid int) (u Usage, err error) {
	if u.CPU, err = processorTime(pid); err != nil {
		return u, err
	}
	says, err := status(pid)
	if err != nil {
		return u, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return u, err
	}
	u.Resident, u.Peak, u.Files = says["VmRSS:"]<<10, says["VmHWM:"]<<10, len(files)
	u.Children, err = children(pid)
	return u, err
}

// status returns the numbers in /proc/PID/status by their names; those of memory are in KiB. See proc_pid_status(5).
func status(pid int) (map[string]int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > 1 {
			if n, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				all[string(fields[0])] = n
			}
		}
	}
	return all, nil
}

// children counts the processes whose parent is pid.
func children(pid int) (int, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range all {
		other, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		if says, err := status(other); err == nil && says["PPid:"] == int64(pid) {
			n++
		}
	}
	return n, nil
}
