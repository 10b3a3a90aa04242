package upstream

import (
	"os"
	"strings"
	"testing"

	secrets "github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// TestNoCutLineShowsTheBeginningOfASecret plants secrets at every place around the cut of each line that is kept of a process, or handed
// on. Where one was cut there is a mark, by which redaction finds it.
func TestNoCutLineShowsTheBeginningOfASecret(t *testing.T) {
	for _, length := range []int{6, 40, 300} {
		planted := strings.Repeat("zq9", length/3+1)[:length]
		set := secrets.NewSet(planted)
		strike := func(line string) string { return secrets.Strike(line, set) }
		for _, most := range []int{maxTailLine, maxStderrLine} {
			for at := most - length; at <= most+1; at++ {
				line := []byte(strings.Repeat(" ", at) + planted + strings.Repeat(" x", most))
				var kept tail
				kept.add(line)
				var said noise
				said.add(line)
				var heard []string
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				c := &Child{process: &Process{Err: r}, stderrRead: make(chan struct{}), stderrLine: func(text []byte) { heard = append(heard, string(text)) }}
				c.running.Add(1)
				go c.readStderr()
				_, _ = w.Write(append(line[:len(line):len(line)], '\n'))
				w.Close()
				<-c.stderrRead
				r.Close()
				s := new(spread)
				s.line([]byte("{"), 1, 1<<20)
				s.line(line, 2, 1<<20)
				for how, text := range map[string]string{
					"the tail": strings.Join(kept.quoted(strike), "\n"), "the noise": strike(said.said[0]), "stderr": strike(strings.Join(heard, "\n")), "stdout": strike(string(beginning(line))), "a broken message": strike(string(s.begins)), "cut": strike(cut(line, most)),
				} {
					if strings.Contains(text, "zq9z") {
						t.Fatalf("%d bytes at %d of %d, %s: …%q", length, at, most, how, strings.TrimSpace(text))
					}
				}
			}
		}
	}
}
