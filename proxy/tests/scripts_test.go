package tests

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

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
)

// allScripts reads the scripts.
func allScripts(t *testing.T) (all []*scriptText) {
	t.Helper()
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
		all = append(all, s)
	}
	return all
}

// TestScripts plays all scripts, each over every pair of its transports.
func TestScripts(t *testing.T) {
	for _, s := range allScripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(s.file), ".txt"), func(t *testing.T) {
			s.each(func(play scriptPlay, client, server scriptPeer, from, to string) {
				if testing.Short() && to == "stdio" && from != "http" {
					return
				}
				inBubble(t, fmt.Sprintf("%s/%s %s to %s %s", play.title, client.revision, from, server.revision, to), func(t *testing.T) {
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
						if isOver(play.from, from) && isOver(play.to, to) {
							do(play, client, server, from, to)
						}
					}
				}
			}
		}
	}
}

// isOver returns whether a transport is one of those of a condition.
func isOver(condition []string, transport string) bool {
	return condition == nil || slices.Contains(condition, transport)
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
	through := throughMade(t, p.server.At(), play.shorten, func(cfg *config.Config) {
		if to == "sse" {
			cfg.Upstream.Transport = "sse"
		}
		in := yaml.NewDecoder(strings.NewReader(play.config))
		in.KnownFields(true)
		if play.config != "" {
			wrong = in.Decode(cfg)
		}
	})
	if wrong != nil {
		return fmt.Errorf("%s: config: %w", s.file, wrong)
	}
	p.client = openScript(t, through, client, from)
	for _, st := range play.steps {
		if !isOver(st.from, from) || !isOver(st.to, to) {
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
	st.messages = slices.Clone(st.messages)
	for n, m := range st.messages {
		st.messages[n] = p.named(m, capabilities)
	}
	if st.does == "leaves" && st.who == "client" {
		return p.client.leave(st.of)
	}
	if st.does == "leaves" {
		of, err := p.filled(st.of)
		if err != nil {
			return err
		}
		return p.server.isLeft(of, p.wait)
	}
	if st.does == "sends" {
		m := ""
		if len(st.messages) > 0 {
			var err error
			if m, err = p.filled(st.messages[0]); err != nil && !strings.HasPrefix(m, "text") {
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
		return p.server.send(m, of, st)
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
		is := p.same
		if st.exactly {
			is = p.exactly
		}
		at := slices.IndexFunc(want, func(w string) bool { return is(got.text, w) || st.who == "client" && is(withoutAdvice(got.text), w) })
		if at < 0 && (len(want) > 0 || got.text != "") {
			return fmt.Errorf("%s gets\n got  %s\n want %s", st.who, got.text, strings.Join(want, "\n or   "))
		}
		if st.status != "" && got.status != "" && got.status != st.status {
			return fmt.Errorf("%s gets status %s, want %s, with %s", st.who, got.status, st.status, got.text)
		}
		for _, h := range st.header {
			have := strings.Join(got.header.Values(h.name), ", ")
			if got.header != nil && (!p.equal(have, h.value, p.bound) || have == "" && h.value != "") {
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

// named returns a message with the texts of names, and <meta> for a client of these capabilities.
func (s *scriptText) named(m, capabilities string) string {
	for name, text := range s.names {
		m = strings.ReplaceAll(m, name, text)
	}
	return strings.ReplaceAll(m, "<meta>", scriptMeta(capabilities))
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

// blankShapes has the forms of placeholders, by how their names begin.
var blankShapes = map[string]*regexp.Regexp{
	"<opaque": regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`),
	"<rest":   regexp.MustCompile(`^(3[0-5][0-9]{5}|3600000)$`),
	"<uuid":   regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
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

// exactly compares bytes. Between them are the values of placeholders, as they are written.
func (p *played) exactly(got, want string) bool {
	form, rest, names := "", want, []string{}
	for _, at := range placeholder.FindAllStringIndex(want, -1) {
		name := want[at[0]:at[1]]
		if name[0] != '"' {
			continue
		}
		form += regexp.QuoteMeta(rest[:len(rest)-(len(want)-at[0])]) + `("[^"]*"|-?[0-9.eE+-]+)`
		rest, names = want[at[1]:], append(names, strings.Trim(name, `"`))
	}
	m := regexp.MustCompile("^" + form + regexp.QuoteMeta(rest) + "$").FindStringSubmatch(got)
	if m == nil {
		return false
	}
	bound := map[string]any{}
	for n, name := range names {
		v, err := scriptValue(m[n+1])
		if err != nil || !p.equal(v, name, bound) {
			return false
		}
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
		if begin, more := strings.CutSuffix(w, "…"); more {
			text, is := got.(string)
			return is && strings.HasPrefix(text, begin)
		}
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
			if text := fmt.Sprint(got); strings.HasPrefix(w, shape) && !form.MatchString(text) {
				return false
			}
		}
		if strings.HasPrefix(w, "<new") {
			for _, known := range []map[string]any{p.bound, bound} {
				for _, v := range known {
					if reflect.DeepEqual(v, got) {
						return false
					}
				}
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

// shorten sets the waits of the proxy.
func (p scriptPlay) shorten(srv *proxy.Server) {
	for name, wait := range p.waits {
		scriptWaits[name](srv, wait)
	}
}

// scriptWaits has the waits that are no settings.
var scriptWaits = map[string]func(*proxy.Server, time.Duration){
	"coalesce":     func(srv *proxy.Server, wait time.Duration) { srv.Host.Config().Bridge.Coalesce = wait },
	"opened":       func(srv *proxy.Server, wait time.Duration) { srv.Host.Config().Bridge.OpenedTimeout = wait },
	"unattributed": func(srv *proxy.Server, wait time.Duration) { srv.Modern.Waits.Unattributed = wait },
	"shed":         func(srv *proxy.Server, wait time.Duration) { srv.Legacy.Waits.Shed = wait },
}

// scriptMeta has the members of _meta in a modern client's request.
func scriptMeta(capabilities string) string {
	return strings.TrimSuffix(strings.TrimPrefix(meta(capabilities), `"_meta":{`), "}")
}
