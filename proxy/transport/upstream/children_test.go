package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// childVar is the variable that makes the test binary run as a child, and says as which.
const childVar = "DRAGOMAN_TEST_CHILD"

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(childVar); ok {
		roles[role](bufio.NewReader(os.Stdin))
		// Unlike os.Exit, it writes nothing to standard error when coverage is measured.
		syscall.Exit(0)
	}
	peertest.WaitTogether()
	os.Exit(m.Run())
}

// roles are servers of many kinds.
var roles = map[string]func(in *bufio.Reader){
	"echo": func(in *bufio.Reader) { io.Copy(os.Stdout, in) },
	"exits at start": func(*bufio.Reader) {
		fmt.Fprintln(os.Stderr, "cannot find module\r")
		syscall.Exit(3)
	},
	"exits in mid-call": func(in *bufio.Reader) {
		in.ReadString('\n')
		fmt.Printf("%s\n{\"jsonrpc\":", answer)
		syscall.Exit(7)
	},
	"does not read": func(*bufio.Reader) { time.Sleep(time.Hour) }, // an empty select is a deadlock in a program without cgo
	"is busy": func(in *bufio.Reader) { // with its first message, as a synchronous server is; then it says all that it reads
		first, _ := in.ReadString('\n')
		time.Sleep(500 * time.Millisecond)
		fmt.Print(first)
		for {
			text, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Print(text)
		}
	},
	"closes its input": func(*bufio.Reader) { os.Stdin.Close(); fmt.Println("{}"); time.Sleep(time.Hour) },
	"closes its output": func(in *bufio.Reader) {
		fmt.Println("{}")
		os.Stdout.Close()
		time.Sleep(time.Hour)
	},
	"ignores TERM": func(in *bufio.Reader) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("{}")
		time.Sleep(time.Hour)
	},
	"ends on TERM": func(in *bufio.Reader) {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("{}")
		<-c
		syscall.Exit(5)
	},
	"floods stderr": func(in *bufio.Reader) {
		for range 200 {
			os.Stderr.WriteString(strings.Repeat("x", 10_000) + "\nshort\n\n")
		}
		os.Stderr.WriteString("no end")
		io.Copy(os.Stdout, in)
	},
	"some noise": func(in *bufio.Reader) {
		fmt.Println("> server@1.0 start\n\nlistening")
		io.Copy(os.Stdout, in)
		for range 2000 {
			fmt.Println("bye")
		}
	},
	"prints over lines": func(in *bufio.Reader) {
		fmt.Println("starting\n{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {\"secret\": {}}\n}\n" + ping)
		io.Copy(io.Discard, in)
	},
	"prints a secret over lines": func(in *bufio.Reader) {
		fmt.Println("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": \"" + strings.Repeat("x", maxQuote-43) + "secret" + strings.Repeat("y", maxQuote) + "\"\n}")
		io.Copy(io.Discard, in)
	},
	"noise for ever": func(*bufio.Reader) {
		for {
			if _, err := fmt.Println("noisy " + strings.Repeat("x", 300)); err != nil {
				syscall.Exit(1)
			}
		}
	},
	"a line of 1 MB": func(in *bufio.Reader) {
		fmt.Println(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
		io.Copy(os.Stdout, in)
	},
	"says what it knows": func(*bufio.Reader) {
		dir, _ := os.Getwd()
		fmt.Printf("{\"dir\":%q,\"variables\":%d}\n", dir, len(os.Environ()))
	},
	"has a child that stays": func(in *bufio.Reader) {
		stay := exec.Command(os.Args[0])
		stay.Env = []string{childVar + "=stays"}
		stay.Stdout, stay.Stderr = os.Stdout, os.Stderr
		if err := stay.Start(); err != nil {
			fmt.Println("noise:", err)
		}
		io.Copy(io.Discard, in)
	},
	"stays": func(*bufio.Reader) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
		fmt.Printf("{\"pid\":%d}\n", os.Getpid())
		time.Sleep(time.Hour)
	},
	"serves quiet streams": func(in *bufio.Reader) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			syscall.Exit(1)
		}
		fmt.Printf("{%q:\"http://%s/\"}\n", "url", l.Addr())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					if r, ok := take(bufio.NewReader(c)); ok {
						first := map[string]string{"/nothing": "", "/comment": ":\n\n", "/endpoint": endpointEvent}[r.RequestURI]
						io.WriteString(c, eventHead+"\r\n"+first)
						c.Read(make([]byte, 1))
					}
				}()
			}
		}()
		io.Copy(io.Discard, in)
	},
	"starts one and waits": func(in *bufio.Reader) {
		s := role("ends on TERM")
		cmd := command(&s)
		s.Starter = func(*Stdio) (*Process, error) { return startCommand(cmd) }
		if _, err := s.Start(context.Background()); err != nil {
			syscall.Exit(1)
		}
		fmt.Printf("{\"pid\":%d}\n", cmd.Process.Pid)
		time.Sleep(time.Hour)
	},
	"starts one with a child that stays, and waits": func(*bufio.Reader) {
		c, err := role("has a child that stays").Start(context.Background())
		if err != nil {
			syscall.Exit(1)
		}
		st, err := c.Listen(context.Background(), ListenOptions{})
		if err != nil {
			syscall.Exit(1)
		}
		e, err := First(st)
		if err != nil {
			syscall.Exit(1)
		}
		fmt.Printf("%s\n", e.Data)
		time.Sleep(time.Hour)
	},
}

// role returns the test binary as one of children, with graces that are long enough for
// every test that does not test them.
func role(name string) Stdio {
	return Stdio{
		Command: []string{os.Args[0], "s3cr3t"}, Env: []string{childVar + "=" + name},
		CloseGrace: patience, TermGrace: patience, UnreadTimeout: patience,
	}
}
