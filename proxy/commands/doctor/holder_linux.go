package doctor

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening is the state of a socket that listens, in /proc/net/tcp.
const listening = "0A"

// holderOf returns the name and the number of the process that listens at the port of addr, as far as this user may know.
func holderOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return anotherProcess
	}
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addSockets(sockets, file, fmt.Sprintf(":%04X", n))
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, d := range descriptors {
		target, err := os.Readlink(d)
		if err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(d))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err == nil {
			return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
		}
	}
	return anotherProcess
}

// addSockets adds the sockets that listen at a port, in the form in which a descriptor links to them.
func addSockets(all map[string]bool, file, port string) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if parts := strings.Fields(lines.Text()); len(parts) > 9 && strings.HasSuffix(parts[1], port) && parts[3] == listening {
			all["socket:["+parts[9]+"]"] = true
		}
	}
}
