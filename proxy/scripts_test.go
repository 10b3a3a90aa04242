package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
)

// A script in testdata/scripts is a conversation of a client and a server, line by line. testdata/scripts/README.md
// describes the format. This file reads and plays scripts, scriptpeers_test.go has the two peers.

// scriptText is a script that was read.
type scriptText struct {
	file    string
	clients []scriptPeer
	servers []scriptPeer
	config  string // YAML
	names   map[string]string
	plays   []scriptPlay
}

// scriptPeer is a section about a client or a server.
type scriptPeer struct {
	revision     string
	transports   []string
	capabilities string
	listens      bool              // the client opens the standing stream
	handshake    bool              // the steps show the handshake
	answers      map[string]string // the results of requests that the steps do not show, by method
}

// scriptPlay is a section of steps, which is played on connections of its own.
type scriptPlay struct {
	title string
	steps []scriptStep
}

// scriptStep is a line of a play.
type scriptStep struct {
	line      int
	condition string // such as "server http"; "" for none
	who, does string
	unasked   bool
	status    string
	of        string   // the request on whose stream the server sends
	messages  []string // for "gets", several in any order
	either    bool     // only one of them comes
	header    []scriptHeader
}

// scriptHeader is an HTTP header of a message. It is not compared, and not sent, on other transports.
type scriptHeader struct{ name, value string }

var (
	scriptHeaders = regexp.MustCompile(`^with ([A-Za-z-]+):(?: (.*))?$`)
	scriptSection = regexp.MustCompile(`^-- (.*) --$`)
	scriptPeers   = regexp.MustCompile(`^(client|server) (\S+) over (\S+)$`)
	scriptSteps   = regexp.MustCompile(`^(?:\[(client|server) (http|sse|stdio)\] )?(client|server) (sends|gets|leaves)(?: (unasked)| for ("<[a-z0-9-]+>"))?(?: (\d{3}))?(?: ([{\[].*))?$`)
)

// readScript reads a script. Its error names the line.
func readScript(file, text string) (*scriptText, error) {
	s := &scriptText{file: file, names: map[string]string{}}
	section := ""
	var peer *scriptPeer
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		at, line := n+1, lines[n]
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		for section != "config" && n+1 < len(lines) && strings.HasPrefix(lines[n+1], " ") { // a long message goes on
			n++
			line += strings.TrimSpace(lines[n])
		}
		wrong := func(want string) error { return fmt.Errorf("%s:%d: want %s, have %q", file, at, want, line) }
		if head := scriptSection.FindStringSubmatch(line); head != nil {
			section, _, _ = strings.Cut(head[1], " ")
			switch section {
			case "config", "names":
			case "steps":
				s.plays = append(s.plays, scriptPlay{title: strings.TrimPrefix(strings.TrimPrefix(head[1], "steps"), " ")})
			default:
				m := scriptPeers.FindStringSubmatch(head[1])
				if m == nil {
					return nil, wrong("-- client REVISION over http,sse,stdio --, -- server … --, -- config --, -- names -- or -- steps TITLE --")
				}
				p := scriptPeer{revision: m[2], transports: strings.Split(m[3], ","), capabilities: `{}`, answers: map[string]string{}}
				if translate.Lookup(p.revision) == nil {
					return nil, wrong("a revision of the protocol")
				}
				for _, over := range p.transports {
					if !slices.Contains([]string{"http", "sse", "stdio"}, over) {
						return nil, wrong("transports http, sse or stdio")
					}
				}
				list := &s.clients
				if section == "server" {
					list, p.capabilities = &s.servers, `{"tools":{},"prompts":{},"resources":{}}`
				}
				*list = append(*list, p)
				peer = &(*list)[len(*list)-1]
			}
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch section {
		case "client", "server":
			switch {
			case word == "capabilities":
				peer.capabilities = rest
			case word == "listens" && section == "client":
				peer.listens = true
			case line == "shows the handshake":
				peer.handshake = true
			case word == "answers" && section == "server":
				method, result, _ := strings.Cut(rest, " ")
				peer.answers[method] = result
			default:
				return nil, wrong("capabilities {…}, shows the handshake, listens (of a client) or answers METHOD {…} (of a server)")
			}
		case "config":
			s.config += line + "\n"
		case "names":
			for name, text := range s.names { // a name may be made of names above it
				rest = strings.ReplaceAll(rest, name, text)
			}
			s.names["<"+word+">"] = rest
		case "steps":
			steps := &s.plays[len(s.plays)-1].steps
			if word == "and" && len(*steps) > 0 && (*steps)[len(*steps)-1].does == "gets" {
				last := &(*steps)[len(*steps)-1]
				last.messages = append(last.messages, rest)
				continue
			}
			if h := scriptHeaders.FindStringSubmatch(line); h != nil && len(*steps) > 0 && (*steps)[len(*steps)-1].takesHeader() {
				last := &(*steps)[len(*steps)-1]
				last.header = append(last.header, scriptHeader{h[1], h[2]})
				continue
			}
			m := scriptSteps.FindStringSubmatch(line)
			if m == nil || (m[7]+m[8] == "") != (m[4] == "leaves") || m[4] == "leaves" && m[3] != "client" {
				return nil, wrong("[client|server http|sse|stdio] client|server sends|gets [unasked|for \"<request>\"] [STATUS] {…} or client leaves, " +
					"after gets: and {…}, or after gets and client sends: with HEADER: VALUE")
			}
			st := scriptStep{line: at, who: m[3], does: m[4], unasked: m[5] != "", of: m[6], status: m[7]}
			for name := range s.names {
				if strings.Contains(line, `"`+name+`"`) {
					return nil, wrong("no value with a name of the section names: " + name)
				}
			}
			if m[1] != "" {
				st.condition = m[1] + " " + m[2]
			}
			if m[8] != "" {
				st.messages = []string{m[8]}
			}
			*steps = append(*steps, st)
		default:
			return nil, wrong("a section first")
		}
	}
	if len(s.clients) == 0 || len(s.servers) == 0 || len(s.plays) == 0 {
		return nil, fmt.Errorf("%s: a script needs a client, a server and steps", file)
	}
	if !strings.HasPrefix(text, "# ") || !strings.Contains(text[:strings.Index(text, "\n-- ")], "https://") {
		return nil, fmt.Errorf("%s:1: a script begins with a comment: a sentence of the specification, and its address", file)
	}
	return s, nil
}

// takesHeader returns whether a script may have the headers of a step.
func (st *scriptStep) takesHeader() bool {
	return len(st.messages) == 1 && (st.does == "gets" || st.who == "client")
}

// TestScripts plays all scripts, each over every pair of its transports.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := readScript(file, string(text))
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s.each(func(play scriptPlay, client, server scriptPeer, from, to string) {
				if testing.Short() && to == "stdio" && from != "http" {
					return
				}
				t.Run(fmt.Sprintf("%s/%s %s to %s %s", play.title, client.revision, from, server.revision, to), func(t *testing.T) {
					if err := s.play(t, play, client, server, from, to, patience/4); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

// each calls do for each play with each pair of peers and transports.
func (s *scriptText) each(do func(play scriptPlay, client, server scriptPeer, from, to string)) {
	for _, play := range s.plays {
		for _, client := range s.clients {
			for _, server := range s.servers {
				for _, from := range client.transports {
					for _, to := range server.transports {
						do(play, client, server, from, to)
					}
				}
			}
		}
	}
}

// played is a play under way.
type played struct {
	*scriptText
	line   int // of the present step
	client *scriptClient
	server *scriptServer
	bound  map[string]any // the values of placeholders
	wait   time.Duration  // how long to wait for each message
}

// play plays a section of steps with peers of its own. After the steps, one more request goes all the way: what
// comes before it was not expected.
func (s *scriptText) play(t *testing.T, play scriptPlay, client, server scriptPeer, from, to string, wait time.Duration) error {
	p := &played{scriptText: s, bound: map[string]any{}, wait: wait}
	p.server = serveScript(t, server, to)
	var wrong error
	through := through(t, p.server.At(), func(cfg *config.Config) {
		if to == "sse" {
			cfg.Upstream.Transport = "sse"
		}
		in := yaml.NewDecoder(strings.NewReader(s.config))
		in.KnownFields(true)
		if s.config != "" {
			wrong = in.Decode(cfg)
		}
	})
	if wrong != nil {
		return fmt.Errorf("%s: config: %w", s.file, wrong)
	}
	p.client = openScript(t, through, client, from)
	for _, st := range play.steps {
		if st.condition != "" && st.condition != "client "+from && st.condition != "server "+to {
			continue
		}
		p.line = st.line
		if err := p.step(st, client.capabilities); err != nil {
			return fmt.Errorf("%s:%d: %w", s.file, p.line, err)
		}
	}
	params, result := "", "{}"
	if translate.Lookup(client.revision).Modern {
		params = `,"params":{"_meta":{<meta>}}`
	}
	if translate.Lookup(server.revision).Modern {
		result = `{"resultType":"complete"}`
	}
	fence := []scriptStep{
		{who: "client", does: "sends", messages: []string{`{"jsonrpc":"2.0","id":"the end","method":"x/end"` + params + `}`}},
		{who: "server", does: "gets", messages: []string{
			`{"jsonrpc":"2.0","id":"<the-end>","method":"x/end"}`, `{"jsonrpc":"2.0","id":"<the-end>","method":"x/end","params":"<any>"}`}, either: true},
		{who: "server", does: "sends", messages: []string{`{"jsonrpc":"2.0","id":"<the-end>","result":` + result + `}`}},
		{who: "client", does: "gets", messages: []string{`{"jsonrpc":"2.0","id":"the end","result":"<any>"}`}},
	}
	for _, st := range fence {
		if err := p.step(st, client.capabilities); err != nil {
			return fmt.Errorf("%s:%d: after the last step: %w", s.file, p.line, err)
		}
	}
	if !p.client.ended(wait) {
		return fmt.Errorf("%s:%d: after the last step: a request has no response", s.file, p.line)
	}
	for who, inbox := range map[string]chan scriptMessage{"client": p.client.inbox, "server": p.server.inbox} {
		if len(inbox) > 0 {
			return fmt.Errorf("%s:%d: after the last step: %s gets\n got  %s\n want nothing", s.file, p.line, who, (<-inbox).text)
		}
	}
	return nil
}

// step carries out a step.
func (p *played) step(st scriptStep, capabilities string) error {
	for n, m := range st.messages {
		m = strings.ReplaceAll(m, "<meta>", scriptMeta(capabilities))
		for name, text := range p.names {
			m = strings.ReplaceAll(m, name, text)
		}
		st.messages = slices.Clone(st.messages)
		st.messages[n] = m
	}
	if st.does == "leaves" {
		return p.client.leave()
	}
	if st.does == "sends" {
		m := ""
		if len(st.messages) > 0 {
			var err error
			if m, err = p.filled(st.messages[0]); err != nil {
				return err
			}
		}
		if st.who == "client" {
			return p.client.send(m, st.header)
		}
		of := ""
		if st.of != "" {
			var err error
			if of, err = p.filled(st.of); err != nil {
				return err
			}
		}
		return p.server.send(m, of, st.status, st.unasked)
	}
	want := slices.Clone(st.messages)
	for {
		var got scriptMessage
		inbox := p.server.inbox
		if st.who == "client" {
			inbox = p.client.inbox
		}
		select {
		case got = <-inbox:
		case <-time.After(p.wait):
			return fmt.Errorf("%s gets nothing, want %s %s%s", st.who, st.status, strings.Join(want, "\nand "), p.others())
		}
		at := slices.IndexFunc(want, func(w string) bool { return p.same(got.text, w) })
		if at < 0 && (len(want) > 0 || got.text != "") {
			return fmt.Errorf("%s gets\n got  %s\n want %s", st.who, got.text, strings.Join(want, "\n or   "))
		}
		if st.status != "" && got.status != "" && got.status != st.status {
			return fmt.Errorf("%s gets status %s, want %s, with %s", st.who, got.status, st.status, got.text)
		}
		for _, h := range st.header {
			if have := strings.Join(got.header.Values(h.name), ", "); got.header != nil && have != h.value {
				return fmt.Errorf("%s gets header %s: %q, want %q, with %s", st.who, h.name, have, h.value, got.text)
			}
		}
		if len(want) > 0 {
			want = slices.Delete(want, at, at+1)
		}
		if len(want) == 0 || st.either {
			return nil
		}
	}
}

// others returns what has come that no step has taken.
func (p *played) others() (text string) {
	for len(p.client.inbox) > 0 {
		text += "\n client has " + (<-p.client.inbox).text
	}
	for len(p.server.inbox) > 0 {
		text += "\n server has " + (<-p.server.inbox).text
	}
	return text
}

// placeholder matches the texts that stand for a value: the first time for any, later for the same.
var placeholder = regexp.MustCompile(`"<[a-z][a-z0-9-]*>"|<[a-z][a-z0-9-]*>`)

// filled returns a message with the values of its placeholders.
func (p *played) filled(m string) (string, error) {
	var unknown error
	m = placeholder.ReplaceAllStringFunc(m, func(name string) string {
		v, ok := p.bound[strings.Trim(name, `"`)]
		if !ok {
			unknown = fmt.Errorf("%s has no value yet", name)
		}
		text, _ := json.Marshal(v)
		if name[0] != '"' { // within a string
			return strings.Trim(string(text), `"`)
		}
		return string(text)
	})
	if unknown == nil && !json.Valid([]byte(m)) {
		unknown = fmt.Errorf("not JSON: %s", m)
	}
	return m, unknown
}

// same compares JSON by value, but numbers as they are written. It gives values to placeholders only if all is the same.
func (p *played) same(got, want string) bool {
	g, err := scriptValue(got)
	w, err2 := scriptValue(want)
	bound := map[string]any{}
	if err != nil || err2 != nil || !p.equal(g, w, bound) {
		return false
	}
	for name, v := range bound {
		p.bound[name] = v
	}
	return true
}

func scriptValue(text string) (v any, err error) {
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.UseNumber()
	return v, in.Decode(&v)
}

func (p *played) equal(got, want any, bound map[string]any) bool {
	switch w := want.(type) {
	case string:
		if !placeholder.MatchString(w) || placeholder.FindString(w) != w {
			return got == want
		}
		if w == "<any>" {
			return true
		}
		for _, known := range []map[string]any{p.bound, bound} {
			if v, ok := known[w]; ok {
				return reflect.DeepEqual(v, got)
			}
		}
		for shape, form := range blankShapes {
			if text, _ := got.(string); strings.HasPrefix(w, strings.TrimSuffix(shape, ">")) && !form.MatchString(text) {
				return false
			}
		}
		bound[w] = got
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for name, v := range w {
			if at, ok := g[name]; !ok || !p.equal(at, v, bound) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(g, w, func(a, b any) bool { return p.equal(a, b, bound) })
	}
	return reflect.DeepEqual(got, want)
}

// scriptMeta has the members of _meta in a modern client's request.
func scriptMeta(capabilities string) string {
	return strings.TrimSuffix(strings.TrimPrefix(meta(capabilities), `"_meta":{`), "}")
}
