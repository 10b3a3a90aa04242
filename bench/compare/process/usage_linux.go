package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc: USER_HZ is 100 on every processor that dragoman is
// built for.
const tick = 10 * time.Millisecond

// Indexes of fields in /proc/PID/stat, counted from the state behind the name; see proc(5).
const (
	statParent = 1
	statUser   = 11
	statSystem = 12
	statFields = 22
	statPages  = 21
)

// peak returns VmHWM of /proc/PID/status in bytes.
func peak(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == "VmHWM:" {
			kb, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("process %d: no VmHWM", pid)
}

// processorTime reads the clock of the process's processor time, which counts nanoseconds; see clock_getcpuclockid(3).
func processorTime(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED, of all threads
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &ts); err != nil {
		return 0, fmt.Errorf("process %d: processor time: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

func usage(pid int) (Usage, error) {
	stat, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return Usage{}, err
	}
	children, err := children(pid)
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:      time.Duration(stat[statUser]+stat[statSystem]) * tick,
		Resident: stat[statPages] * int64(os.Getpagesize()),
		Files:    len(files),
		Children: children,
	}, nil
}

// readStat returns the numbers in /proc/PID/stat. The state, a letter, is 0.
func readStat(pid int) ([statFields]int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return [statFields]int64{}, err
	}
	return parseStat(text)
}

func parseStat(text []byte) (stat [statFields]int64, err error) {
	// The name is in parentheses, and may itself contain parentheses and spaces.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < statFields {
		return stat, fmt.Errorf("proc stat: %d fields", len(fields))
	}
	for i := 1; i < statFields; i++ {
		if stat[i], err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
			return stat, fmt.Errorf("proc stat: %w", err)
		}
	}
	return stat, nil
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
		if stat, err := readStat(other); err == nil && stat[statParent] == int64(pid) {
			n++
		}
	}
	return n, nil
}
