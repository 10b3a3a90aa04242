// Package memlimit reads how much memory the system lets this process have, and gives back what it does not need.
package memlimit

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Read returns the limit of this process's control group in bytes, 0 where there is none
// or where the system has no control groups. It is the limit at the first call.
func Read() int64 { return atStart() }

var atStart = sync.OnceValue(func() int64 { return readAt("/") })

// Apply sets the runtime's memory limit to 85 % of the limit that Read returns: the rest
// is for memory that the runtime does not count, such as the program itself. The variable
// GOMEMLIMIT takes precedence.
//
// See https://go.dev/doc/gc-guide#Memory_limit.
func Apply() {
	if limit := Read(); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 100 * 85)
	}
}

// readAt does what Read does, with another root directory.
//
// See https://docs.kernel.org/admin-guide/cgroup-v2.html and, for the older version,
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html.
func readAt(root string) int64 {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	limit := int64(math.MaxInt64)
	lines := bufio.NewScanner(bytes.NewReader(groups))
	for lines.Scan() {
		id, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount, file := "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		switch {
		case id == "0" && controllers == "":
			mount, file = "sys/fs/cgroup", "memory.max"
		case !strings.Contains(","+controllers+",", ",memory,"):
			continue
		}
		// A container sees its own group at the mount, whatever its name is outside. The
		// limit of a group also limits the groups within it.
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			limit = min(limit, readFile(filepath.Join(root, mount, dir, file)))
			if dir == "/" {
				break
			}
		}
	}
	if limit >= 1<<50 { // version 1 says "no limit" by a very large number
		return 0
	}
	return limit
}

func readFile(name string) int64 {
	text, err := os.ReadFile(name)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 { // "max"
		return math.MaxInt64
	}
	return n
}
