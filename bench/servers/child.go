package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	marker   = "SERVERS_RUN" // names the run in the environment of all its processes, so that none is left
	stopTime = 10 * time.Second
)

// A folder is what a run has of the machine: a new HOME, a new folder for temporary files, and one with files to work on.
type folder struct {
	root string
	port int // a free one, for a server on HTTP
}

func newFolder() (folder, error) {
	root, err := os.MkdirTemp("", "servers-")
	if err != nil {
		return folder{}, err
	}
	f := folder{root: root}
	for _, dir := range []string{f.home(), f.temporary(), f.work()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return f, err
		}
	}
	for name, text := range map[string]string{
		"a.txt": "first line\nsecond line\n", "b.json": `{"b": [1, 2, 3]}`, "note.md": "# A note\n\nwith [[a link]]\n", "dot.png": dot,
		"package.json": `{"name": "work", "version": "1.0.0", "private": true}`, "data.csv": "name,size\na,1\nb,2\n",
		"kubeconfig": kubeconfig,
	} {
		if err := os.WriteFile(filepath.Join(f.work(), name), []byte(text), 0o600); err != nil {
			return f, err
		}
	}
	f.port, err = freePort()
	return f, err
}

// dot is a picture of one pixel.
const dot = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82"

// kubeconfig names a cluster that does not answer.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
`

func (f folder) home() string      { return filepath.Join(f.root, "home") }
func (f folder) temporary() string { return filepath.Join(f.root, "tmp") }
func (f folder) work() string      { return filepath.Join(f.root, "work") }

// remove ends what is left of the run's processes, and removes the folder.
func (f folder) remove() {
	f.killLeft()
	os.RemoveAll(f.root)
}

// fill replaces {work}, {home} and {port} in the texts of a server's data.
func (f folder) fill(text string) string {
	for name, value := range map[string]string{"{work}": f.work(), "{home}": f.home(), "{port}": strconv.Itoa(f.port)} {
		text = string(bytes.ReplaceAll([]byte(text), []byte(name), []byte(value)))
	}
	return text
}

// environment is all that a process of the run gets of the environment.
func (f folder) environment(more map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.home(), "TMPDIR=" + f.temporary(), marker + "=" + f.root}
	for name, value := range more {
		env = append(env, name+"="+f.fill(value))
	}
	return env
}

// left returns the processes of the run that still run.
func (f folder) left() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+marker+"="+f.root+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (f folder) killLeft() {
	for range 20 { // a process may start another one while it is killed
		pids := f.left()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				p.Kill()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// endsAlone reports whether all processes of the run end within a time that is long for programs whose input has ended.
func (f folder) endsAlone() bool {
	for range 30 {
		if len(f.left()) == 0 {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// A child is a started command. Its output on stderr is kept as far as an error quotes it.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	said  tail
	ended chan struct{}
}

func (f folder) start(ctx context.Context, command []string, env map[string]string) (*child, error) {
	p := &child{cmd: exec.CommandContext(ctx, command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = f.work(), f.environment(env), &p.said, time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe of our own, because Wait closes that of StdoutPipe before all is read.
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.out, p.cmd.Stdout = out, write
	err = p.cmd.Start()
	write.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	return p, nil
}

// stop ends the process: its input ends, then it is asked to end, then it is killed.
// patience is how long it gets for each.
func (p *child) stop(patience time.Duration) {
	p.in.Close()
	if !p.endsWithin(patience) {
		p.cmd.Process.Signal(syscall.SIGTERM)
		if !p.endsWithin(patience) {
			p.cmd.Process.Kill()
			<-p.ended
		}
	}
	p.out.Close()
}

func (p *child) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// tail keeps the last KiB that is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-1024):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(bytes.TrimSpace(t.text), nil))
}
