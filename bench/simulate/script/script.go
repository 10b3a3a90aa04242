// Package script is a world and its schedule as text: a line says who does what. A seed makes a script; a person can write one; and a
// script from which lines are deleted is one still, since a step whose object is gone does nothing.
package script

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a world and what happens in it.
type Script struct {
	Seed     uint64 // of the random numbers of the product in this world
	Server   Server
	Clients  []Client
	Replicas int      // how many processes serve the clients of HTTP
	Store    bool     // the replicas share a store
	Portable bool     // connections cannot tell that they are quiet, as on macOS and Windows
	Settings []string // "session.share_child: true": paths and values of a configuration
	Steps    []Step
}

// Server is the server of the world.
type Server struct {
	Transport string // http, sse, stdio
	Revision  string // the newest that it speaks; "both" for a server of both eras
	Tasks     bool   // it has tasks, as far as its revision has them
	Wants     string // what each request to it must have: own, the token of a client; key, the header that dragoman adds (KeyHeader); "": nothing
}

// String is the line.
func (s Server) String() string {
	line := "server " + s.Transport + " " + s.Revision
	if s.Tasks {
		line += " tasks"
	}
	if s.Wants != "" {
		line += " wants=" + s.Wants
	}
	return line
}

// What dragoman adds for a server that wants a key.
const (
	KeyHeader = "X-Key"
	Key       = "key-0123456789abcdef"
)

// Client is a client of the world. Its name is c1, c2 …
type Client struct {
	Name      string
	Transport string // http, sse, stdio
	Revision  string
	User      string // whose token it sends, over HTTP; "" for none
	Lacks     string // what other clients have, with commas between: stream, roots, sampling, elicitation, form or url of that, tasks
}

// Without says whether the client lacks something.
func (c Client) Without(what string) bool {
	return slices.Contains(strings.Split(c.Lacks, ","), what)
}

// String is the line.
func (c Client) String() string {
	line := strings.Join([]string{"client", c.Name, c.Transport, c.Revision}, " ")
	if c.User != "" {
		line += " " + c.User
	}
	if c.Lacks != "" {
		line += " lacks=" + c.Lacks
	}
	return line
}

// Token is the bearer token of a user; "" for none.
func Token(user string) string {
	if user == "" {
		return ""
	}
	return user + "-0123456789abcdef"
}

// Step is a line of the schedule: "c1 call 7 progress=2 how=sse".
type Step struct {
	Who    string   // c1, server, link, operator; "" for the time: wait
	Verb   string   // what is done
	Words  []string // to what
	Values []Value  // how
}

// Value is a word with a name: how=sse.
type Value struct{ Name, Text string }

// String is the line.
func (s Step) String() string {
	var b strings.Builder
	if s.Who != "" {
		b.WriteString(s.Who + " ")
	}
	b.WriteString(s.Verb)
	for _, w := range s.Words {
		b.WriteString(" " + w)
	}
	for _, v := range s.Values {
		b.WriteString(" " + v.Name + "=" + v.Text)
	}
	return b.String()
}

// Get returns the value of a name; "" if there is none.
func (s Step) Get(name string) string {
	for _, v := range s.Values {
		if v.Name == name {
			return v.Text
		}
	}
	return ""
}

// Number returns the value of a name as a number; 0 if there is none.
func (s Step) Number(name string) int {
	n, _ := strconv.Atoi(s.Get(name))
	return n
}

// Time returns the value of a name as a duration; 0 if there is none.
func (s Step) Time(name string) time.Duration { return duration(s.Get(name)) }

// Word returns the i-th word; "" if there are fewer.
func (s Step) Word(i int) string {
	if i < len(s.Words) {
		return s.Words[i]
	}
	return ""
}

// Mark returns the mark of the call that step s of a client is about: its first word is the number.
func (s Step) Mark() string { return s.Who + "." + s.Word(0) }

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// ParseStep reads a line.
func ParseStep(line string) (Step, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Step{}, fmt.Errorf("an empty step")
	}
	var s Step
	if words[0] != "wait" {
		if s.Who, words = words[0], words[1:]; len(words) == 0 {
			return Step{}, fmt.Errorf("%q: what is done is missing", line)
		}
	}
	s.Verb = words[0]
	for _, w := range words[1:] {
		if name, text, named := strings.Cut(w, "="); named {
			s.Values = append(s.Values, Value{name, text})
		} else {
			s.Words = append(s.Words, w)
		}
	}
	return s, nil
}

// String is the script as text, which Parse reads.
func (s *Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world seed=%d replicas=%d store=%t portable=%t\n", s.Seed, s.Replicas, s.Store, s.Portable)
	fmt.Fprintln(&b, s.Server)
	for _, c := range s.Clients {
		fmt.Fprintln(&b, c)
	}
	for _, line := range s.Settings {
		fmt.Fprintf(&b, "set %s\n", line)
	}
	b.WriteString("steps\n")
	for _, step := range s.Steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// Has says whether a setting that begins so is there.
func (s *Script) Has(path string) bool {
	return slices.ContainsFunc(s.Settings, func(line string) bool { return strings.HasPrefix(line, path) })
}

// Parse reads a script. Lines that are empty or begin with # say nothing.
func Parse(text string) (*Script, error) {
	s := &Script{Replicas: 1}
	steps := false
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := func(what string) error { return fmt.Errorf("line %d: %q: %s", n, line, what) }
		if steps {
			step, err := ParseStep(line)
			if err != nil {
				return nil, wrong(err.Error())
			}
			s.Steps = append(s.Steps, step)
			continue
		}
		words := strings.Fields(line)
		switch {
		case words[0] == "steps":
			steps = true
		case words[0] == "world":
			of, err := ParseStep("the " + line)
			if err != nil {
				return nil, wrong(err.Error())
			}
			s.Seed, _ = strconv.ParseUint(of.Get("seed"), 10, 64)
			s.Replicas, s.Store, s.Portable = max(of.Number("replicas"), 1), of.Get("store") == "true", of.Get("portable") == "true"
		case words[0] == "server":
			of, err := ParseStep("the " + line)
			if err != nil || len(of.Words) < 2 || len(of.Words) > 3 || of.Word(2) != "" && of.Word(2) != "tasks" {
				return nil, wrong("server TRANSPORT REVISION [tasks] [wants=WHAT]")
			}
			s.Server = Server{of.Word(0), of.Word(1), of.Word(2) != "", of.Get("wants")}
		case words[0] == "client":
			of, err := ParseStep("the " + line)
			if err != nil || len(of.Words) < 3 || len(of.Words) > 4 {
				return nil, wrong("client NAME TRANSPORT REVISION [USER] [lacks=WHAT]")
			}
			s.Clients = append(s.Clients, Client{of.Word(0), of.Word(1), of.Word(2), of.Word(3), of.Get("lacks")})
		case words[0] == "set" && len(words) > 1:
			s.Settings = append(s.Settings, strings.TrimSpace(strings.TrimPrefix(line, "set")))
		default:
			return nil, wrong("neither world, server, client, set nor steps")
		}
	}
	return s, lines.Err()
}
