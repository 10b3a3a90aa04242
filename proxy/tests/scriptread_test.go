package tests

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// A script in testdata/scripts is a conversation of a client and a server, line by line. testdata/scripts/README.md
// describes the format. This file reads scripts, scripts_test.go plays them, and scriptpeers_test.go has the two peers.

// scriptText is a script that was read.
type scriptText struct {
	file    string
	clients []scriptPeer
	servers []scriptPeer
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
	shown        []string          // further methods that the steps show, of those that a server answers by itself
	answers      map[string]string // the results of requests that the steps do not show, by method
}

// scriptPlay is a section of steps, which is played on connections of its own.
type scriptPlay struct {
	title string
	cases []int // the numbers of the matrix's cases, with which the title begins
	steps []scriptStep

	from, to []string // the transports where it is played; nil for all

	config string                   // YAML
	under  []scriptConfig           // the sections of it with which the steps are played
	waits  map[string]time.Duration // those that are no settings
}

// scriptConfig is a section with settings.
type scriptConfig struct{ title, yaml string }

// scriptStep is a line of a play.
type scriptStep struct {
	line      int
	from, to  []string // the transports where it is played; nil for all
	who, does string
	unasked   bool
	exactly   bool // the message is compared byte by byte
	status    string
	of        string   // the request on whose stream the server sends, or that it answers
	messages  []string // for "gets", several in any order
	either    bool     // only one of them comes
	header    []scriptHeader
}

// scriptHeader is an HTTP header of a message. It is not compared, and not sent, on other transports.
type scriptHeader struct{ name, value string }

var (
	scriptHeaders = regexp.MustCompile(`^with ([A-Za-z-]+):(?: (.*))?$`)
	scriptSection = regexp.MustCompile(`^-- (.*) --$`)
	scriptOnly    = regexp.MustCompile(`^\[(?:client ([a-z,]+))?(?: ?server ([a-z,]+))?\] `)
	scriptPeers   = regexp.MustCompile(`^(client|server) (\S+) over (\S+)$`)
	scriptSteps   = regexp.MustCompile(`^(client|server|proxy) (sends|gets|leaves)(?: (unasked|exactly)| for ("<?[A-Za-z0-9-]+>?"|\d+))?(?: (\d{3}))?(?: ([{\[].*|text.*))?$`)
)

// readScript reads a script. Its error names the line.
func readScript(file, text string) (*scriptText, error) {
	s := &scriptText{file: file, names: map[string]string{}}
	section, config, waits := "", []scriptConfig{{}}, map[string]time.Duration{}
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
			before := section
			var title string
			section, title, _ = strings.Cut(head[1], " ")
			switch section {
			case "names":
			case "config":
				if before != "config" {
					config = nil
				}
				config = append(config, scriptConfig{title: title})
			case "waits":
				waits = map[string]time.Duration{}
			case "steps":
				play := scriptPlay{under: config, waits: waits}
				if play.title, play.from, play.to = onlyOver(title + " "); !areTransports(play.from) || !areTransports(play.to) {
					return nil, wrong("transports http, sse or stdio")
				}
				play.title = strings.TrimSpace(play.title)
				for word := range strings.FieldsSeq(play.title) {
					n, err := strconv.Atoi(word)
					if err != nil || n < 0 {
						break
					}
					play.cases = append(play.cases, n)
				}
				s.plays = append(s.plays, play)
			default:
				m := scriptPeers.FindStringSubmatch(head[1])
				if m == nil {
					return nil, wrong("-- client REVISION over http,sse,stdio --, -- server … --, -- config --, -- names --, -- waits -- or -- steps TITLE --")
				}
				p := scriptPeer{revision: m[2], transports: strings.Split(m[3], ","), capabilities: `{}`, answers: map[string]string{}}
				if translate.Lookup(p.revision) == nil {
					return nil, wrong("a revision of the protocol")
				}
				if !areTransports(p.transports) {
					return nil, wrong("transports http, sse or stdio")
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
			case word == "shows" && section == "server":
				peer.shown = append(peer.shown, rest)
			case word == "answers" && section == "server":
				method, result, _ := strings.Cut(rest, " ")
				peer.answers[method] = result
			default:
				return nil, wrong("capabilities {…}, shows the handshake, listens (of a client), shows METHOD or answers METHOD {…} (of a server)")
			}
		case "config":
			config[len(config)-1].yaml += line + "\n"
		case "waits":
			wait, err := time.ParseDuration(rest)
			if err != nil || scriptWaits[word] == nil {
				return nil, wrong("the name of a wait, and a duration")
			}
			waits[word] = wait
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
			st := scriptStep{line: at}
			if line, st.from, st.to = onlyOver(line); !areTransports(st.from) || !areTransports(st.to) {
				return nil, wrong("transports http, sse or stdio")
			}
			m := scriptSteps.FindStringSubmatch(line)
			if m == nil || !fits(m[1], m[2], m[3], m[4], m[5], m[6]) {
				return nil, wrong("[client http,sse,stdio server http,sse,stdio] client|server sends|gets [unasked|exactly|for \"<request>\"] [STATUS] {…}, " +
					"client leaves [for ID] or proxy leaves for \"<request>\", after gets: and {…}, or after gets, client sends and server sends STATUS: with HEADER: VALUE")
			}
			st.who, st.does, st.unasked, st.exactly, st.of, st.status = m[1], m[2], m[3] == "unasked", m[3] == "exactly", m[4], m[5]
			for name := range s.names {
				if strings.Contains(line, `"`+name+`"`) {
					return nil, wrong("no value with a name of the section names: " + name)
				}
			}
			if m[6] != "" {
				st.messages = []string{m[6]}
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
	plays := s.plays
	s.plays = nil
	for _, play := range plays {
		for _, c := range play.under {
			one := play
			one.title, one.config = strings.TrimSpace(play.title+" "+c.title), c.yaml
			s.plays = append(s.plays, one)
		}
	}
	return s, nil
}

// fits returns whether a step of these words can be played.
func fits(who, does, how, of, status, message string) bool {
	switch {
	case strings.HasPrefix(message, "text"):
		return who+does == "serversends" && of != "" && status != ""
	case does == "leaves" && who == "client":
		return how+status+message == ""
	case does == "leaves":
		return who == "proxy" && of != "" && status+message == ""
	case how == "exactly":
		return does == "gets" && message != ""
	}
	return who != "proxy" && status+message != "" && (how+of == "" || who+does == "serversends")
}

// onlyOver returns what follows a condition, and the transports of the client and the server in it.
func onlyOver(line string) (rest string, from, to []string) {
	only := scriptOnly.FindStringSubmatch(line)
	if only == nil {
		return line, nil, nil
	}
	return line[len(only[0]):], transportsIn(only[1]), transportsIn(only[2])
}

// transportsIn returns the transports of a condition.
func transportsIn(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func areTransports(list []string) bool {
	return !slices.ContainsFunc(list, func(over string) bool { return over != "http" && over != "sse" && over != "stdio" })
}

// takesHeader returns whether a script may have the headers of a step.
func (st *scriptStep) takesHeader() bool {
	return len(st.messages) == 1 && (st.does == "gets" || st.who == "client" || st.status != "")
}
