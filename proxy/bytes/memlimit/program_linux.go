package memlimit

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram lets the system take the pages of the program itself that were needed to start. The kernel maps 16 pages
// around each that is touched, so that after the start nearly the whole program counts as this process's memory. A page
// that is needed again is mapped again, from the page cache.
func releaseProgram() {
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range programPages(maps, name) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.size, syscall.MADV_DONTNEED) // if it fails, they stay
	}
}

type pages struct{ start, size uintptr }

// programPages returns the mappings of the file name in a text like that of /proc/self/smaps that can be let go. Those that
// are writable, and those that the process has written before (relocations, breakpoints), cannot: their content is
// nowhere else.
//
// See https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html.
func programPages(smaps []byte, name string) (all []pages) {
	var m pages
	counted := 0
	for line := range bytes.Lines(smaps) {
		f := strings.Fields(string(line))
		if len(f) == 0 {
			continue
		}
		if !strings.HasSuffix(f[0], ":") { // 00401000-00e29000 r-xp 00001000 fe:00 12345 /usr/bin/dragoman
			m = pages{}
			start, end, ok := strings.Cut(f[0], "-")
			a, err1 := strconv.ParseUint(start, 16, strconv.IntSize)
			z, err2 := strconv.ParseUint(end, 16, strconv.IntSize)
			if ok && err1 == nil && err2 == nil && a < z && len(f) == 6 && f[5] == name && (f[1] == "r--p" || f[1] == "r-xp") {
				m, counted = pages{uintptr(a), uintptr(z - a)}, 0
			}
			continue
		}
		if m.size == 0 || f[0] != "Anonymous:" && f[0] != "Swap:" {
			continue
		}
		if len(f) < 2 || f[1] != "0" {
			m = pages{}
		} else if counted++; counted == 2 {
			all = append(all, m)
		}
	}
	return all
}
