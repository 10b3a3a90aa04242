package upstream

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// inside says that the test runs in a network namespace of its own.
const inside = "NETWORK_NAMESPACE_OF_A_TEST"

// TestDeadConnectionsBehindARouter does with the times of the product what TestDeadConnections does with short ones: client, router and
// server are three network namespaces, and the router forgets flows as a NAT does. New ones pass.
func TestDeadConnectionsBehindARouter(t *testing.T) {
	if os.Getenv(inside) != "" {
		forgets(t, routed(t))
		return
	}
	t.Parallel()
	testset.Need(t, testset.Measurements, "unshare", "ip")
	alone := []string{"--user", "--map-root-user", "--net"}
	if out, err := exec.Command("unshare", append(alone, "ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1")...).CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "unshare", append(alone, self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.parallel=20")...)
	c.Env = append(os.Environ(), inside+"=1")
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP: "+t.Name()+" ") {
		t.Skipf("%s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// space is a network namespace, which lives as long as the process.
type space struct {
	do chan func()
	id string // of the thread that is in it
}

func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{do: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // it is never unlocked: the thread is of no use to others
		s.id = strconv.Itoa(unix.Gettid())
		entered <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range s.do {
			f()
		}
	}()
	if err := <-entered; err != nil {
		t.Fatal(err)
	}
	return s
}

// in calls f in the namespace; s is nil for that of the test.
func (s *space) in(f func() error) error {
	if s == nil {
		return f()
	}
	done := make(chan error)
	s.do <- func() { done <- f() }
	return <-done
}

// ip runs the program, with the arguments in one text.
func (s *space) ip(t *testing.T, args string) {
	t.Helper()
	if err := s.in(func() error {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return errors.New(err.Error() + ": " + string(out))
		}
		return nil
	}); err != nil {
		t.Fatalf("ip %s: %v", args, err)
	}
}

// routed makes a network with a router in the middle.
func routed(t *testing.T) *network {
	var here *space
	router, far := newSpace(t), newSpace(t)
	here.ip(t, "link add c0 type veth peer name r0 netns "+router.id)
	here.ip(t, "addr add 10.1.0.1/24 dev c0")
	here.ip(t, "link set c0 up")
	router.ip(t, "link add r1 type veth peer name s0 netns "+far.id)
	router.ip(t, "addr add 10.1.0.2/24 dev r0")
	router.ip(t, "link set r0 up")
	router.ip(t, "addr add 10.2.0.2/24 dev r1")
	router.ip(t, "link set r1 up")
	far.ip(t, "addr add 10.2.0.1/24 dev s0")
	far.ip(t, "link set s0 up")
	here.ip(t, "route add default via 10.1.0.2")
	far.ip(t, "route add default via 10.2.0.2")
	if err := router.in(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }); err != nil {
		t.Skipf("no router here: %v", err)
	}
	return &network{
		watch: dial.Standard,
		says:  "the connection was dead (no acknowledgement for 25 s)",
		listen: func(t *testing.T) (ln net.Listener) {
			if err := far.in(func() (err error) {
				ln, err = net.Listen("tcp", "10.2.0.1:0")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return ln
		},
		forget: func(t *testing.T, end net.Conn) {
			_, client, _ := net.SplitHostPort(end.RemoteAddr().String())
			_, server, _ := net.SplitHostPort(end.LocalAddr().String())
			router.ip(t, "rule add pref 5 ipproto tcp sport "+client+" dport "+server+" blackhole")
			router.ip(t, "rule add pref 5 ipproto tcp sport "+server+" dport "+client+" blackhole")
		},
	}
}
