package script

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Make returns the script of a seed: always the same one.
func Make(seed uint64) *Script { return MakeLong(seed, 0) }

// MakeLong returns a script of a seed that is as long as that many rows make it: 0 for some tens.
func MakeLong(seed uint64, rows int) *Script {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 46)), s: &Script{Seed: seed, Replicas: 1}, calls: map[string]int{}, rows: rows}
	m.touched = -m.IntN(4) // or no world would begin with a fault
	m.profile = profiles[m.IntN(len(profiles))]
	m.world()
	m.settings()
	m.schedule()
	return m.s
}

// maker makes a script.
type maker struct {
	*rand.Rand
	s       *Script
	rows    int
	profile profile
	web     bool           // there are clients on HTTP
	client  Client         // C
	replica string         // R
	calls   map[string]int // the number of each client's last call
	asked   int            // calls so far
	touched int            // how many of them faults may have ended
	deaths  int            // of processes on stdio, in a row
	due     []due
}

// due is a step that has to follow.
type due struct {
	line  string
	after int // steps
}

func (m *maker) oneIn(n int) bool { return m.IntN(n) == 0 }

// of draws one of a|b|c.
func (m *maker) of(text string) string {
	all := strings.Split(text, "|")
	return all[m.IntN(len(all))]
}

func (m *maker) draw(l lot) row {
	at := m.IntN(l.upTo[len(l.upTo)-1])
	return l.rows[slices.IndexFunc(l.upTo, func(sum int) bool { return at < sum })]
}

func (m *maker) world() {
	m.s.Server.Transport = m.of("http|http|http|stdio|stdio|sse")
	m.s.Server.Revision = m.revision(m.s.Server.Transport)
	if m.s.Server.Transport != "sse" && m.oneIn(7) {
		m.s.Server.Revision = "both"
	}
	m.s.Server.Tasks = m.s.Server.Revision >= revisions[modern-1] && m.oneIn(2) // "both" is behind them
	for i := range 1 + m.IntN(4) {
		c := Client{Name: fmt.Sprint("c", i+1), Transport: m.of("http|http|http|http|stdio|stdio|sse")}
		c.Revision = m.revision(c.Transport)
		c.Lacks = m.lacks(c.Transport)
		m.s.Clients = append(m.s.Clients, c)
		m.web = m.web || c.Transport != "stdio"
	}
	if m.web && (m.profile.name == "replicas" || m.oneIn(3)) {
		m.s.Replicas = 2 + m.IntN(2)
	}
	if m.wants(); m.s.Server.Wants != "own" {
		m.users()
	}
	m.s.Store = m.web && (m.s.Replicas > 1 || m.oneIn(6))
	m.s.Portable = m.oneIn(8)
}

// wants makes the server want, in some worlds, the token of each client, or a key of dragoman's.
func (m *maker) wants() {
	if m.s.Server.Transport == "stdio" || !m.oneIn(5) {
		return
	}
	if m.s.Server.Wants = "own"; slices.ContainsFunc(m.s.Clients, func(c Client) bool { return c.Transport == "stdio" }) {
		m.s.Server.Wants = "key"
		return
	}
	for i := range m.s.Clients {
		m.s.Clients[i].User = m.of("alice|bob")
	}
}

// users gives clients tokens, in one world of five: all of those on HTTP, whom dragoman then may let in by them, or some.
func (m *maker) users() {
	if !m.web || !m.oneIn(5) {
		return
	}
	all := m.oneIn(2)
	for i := range m.s.Clients {
		c := &m.s.Clients[i]
		if c.User = m.of("alice|bob"); c.Transport == "stdio" || !all && m.oneIn(3) {
			c.User = ""
		}
	}
	switch {
	case all:
		m.set("auth.tokens:")
	case m.has("users") && m.oneIn(2):
		m.set("bridge.principal:")
	}
}

// revision draws one that there is on a transport.
func (m *maker) revision(transport string) string {
	if transport == "sse" {
		return revisions[m.IntN(modern)]
	}
	return revisions[m.IntN(len(revisions))]
}

// lacks draws what a client cannot.
func (m *maker) lacks(transport string) string {
	var all []string
	if transport == "http" && m.oneIn(6) {
		all = append(all, "stream")
	}
	if m.oneIn(5) {
		all = append(all, m.of("elicitation|elicitation|sampling|roots|url|url|form|tasks"))
	}
	return strings.Join(all, ",")
}

func (m *maker) settings() {
	if m.profile.name == "shaped" {
		m.set(m.of("transform:|transform:|adapters.|gates:"))
	}
	if (m.s.Server.Revision == "both" || m.s.Server.Revision == revisions[modern]) && !m.s.Has("transform:") && m.oneIn(6) {
		m.set("transform: {default_max_tokens: 100,") // with a tool of dragoman's own
	}
	if m.s.Server.Transport == "stdio" && m.oneIn(6) {
		m.set("upstream.share_child:")
	}
	if m.profile.name == "restarts" && m.s.Server.Transport == "stdio" && m.oneIn(2) {
		m.set("upstream.restart.max: 1") // a process is soon lost for good
	}
	if m.profile.name == "limits" && m.oneIn(2) {
		m.set("upstream.silence_timeout:")
	}
	if m.oneIn(12) {
		m.set("gates:")
	}
	if m.oneIn(8) {
		m.set("upstream.silence_timeout:")
	}
	if m.web && m.s.Server.Transport != "http" && m.oneIn(4) {
		m.set("limits.replay: 0")
	}
	if !m.oneIn(3) {
		return
	}
	for range 1 + m.IntN(4) {
		set := settings[m.IntN(len(settings))]
		key, _, _ := strings.Cut(set.line, ":")
		if !m.s.Has(key+":") && m.has(set.only) {
			m.s.Settings = append(m.s.Settings, set.line)
		}
	}
}

// set draws one of the settings that begin so, unless there is one.
func (m *maker) set(path string) {
	if key, _, _ := strings.Cut(path, ":"); m.s.Has(key + ":") {
		return
	}
	for {
		if set := settings[m.IntN(len(settings))]; strings.HasPrefix(set.line, path) && m.has(set.only) {
			m.s.Settings = append(m.s.Settings, set.line)
			return
		}
	}
}

func (m *maker) schedule() {
	if m.oneIn(6) { // one that starts slowly
		m.add(m.expand("server slow 2s..12s"))
		m.due = append(m.due, due{"server slow 0s", 2 + m.IntN(4)})
	}
	if m.oneIn(3) {
		m.add("server pages")
	}
	if m.s.Server.Revision == revisions[1] && m.oneIn(2) {
		m.add("server batches")
	}
	if m.has("http") && m.oneIn(4) {
		m.add(m.expand("server hesitate 1ms..900ms|1ms..900ms|4s..30s"))
	}
	if m.has("http") && m.oneIn(6) {
		m.add(m.expand("server streamlife 11s..30s|1m..1m"))
	}
	m.some(beginnings)
	for _, c := range m.s.Clients {
		if !m.oneIn(4) {
			m.add(c.Name + " begin")
			if m.client = c; c.Transport != "http" && m.has("http old") && m.oneIn(3) { // the first thing is a question on the standing stream
				m.add(m.expand("C call N ask=ASK away=yes"))
			}
		}
	}
	for n := cmp.Or(m.rows, 30+m.IntN(41)); n > 0; {
		m.client = m.s.Clients[m.IntN(len(m.s.Clients))]
		m.replica = fmt.Sprint("r", 1+m.IntN(m.s.Replicas))
		r := m.draw(m.profile.steps)
		if !m.may(r) {
			continue
		}
		n--
		m.add(m.expand(r.text))
		if r.then != "" {
			m.due = append(m.due, due{m.expand(r.then), 2 + m.IntN(4)})
		}
		if wait := m.draw(m.profile.waits); wait.text != "" {
			m.add(m.expand(wait.text))
		}
		m.follow(false)
	}
	m.follow(true)
	m.some(endings)
	for _, c := range m.s.Clients { // one on stdio says no more, but waits for its answers, or not for long
		if m.client = c; c.Transport == "stdio" && m.has("old") && m.oneIn(5) {
			m.add(m.expand("C call N PLAN ; C call N progress=1 gap=1s..3s ask=ASK wait=0s|4s|20s ; wait 1ms..900ms ; C finish"))
			if m.oneIn(2) {
				m.add("wait " + m.between("1ms", "9s"))
				m.add("operator stop p" + c.Name[1:])
			}
			m.add("wait " + m.between("1ms", "30s"))
		}
	}
	for _, c := range m.s.Clients { // the end of what a client on stdio has started, maybe in the midst of calls
		if m.client = c; c.Transport == "stdio" && m.oneIn(6) {
			for range m.IntN(3) {
				m.add(m.expand("C call N PLAN"))
			}
			m.add("operator stop p" + c.Name[1:])
			m.add("wait " + m.between("1ms", "12s"))
		}
	}
}

// some adds, in some worlds, one of a lot for one client.
func (m *maker) some(of lot) {
	for _, c := range m.s.Clients {
		m.client, m.replica = c, fmt.Sprint("r", 1+m.IntN(m.s.Replicas))
		if r := m.draw(of); m.has("web "+r.only) && m.deaths+m.deathsOf(r) <= 4 && m.oneIn(3) {
			m.settle(r)
			m.add(m.expand(r.text))
			if r.then != "" {
				m.add(m.expand(r.then))
			}
			return
		}
	}
}

// follow adds the steps that are due by now, or all that have to follow.
func (m *maker) follow(all bool) {
	later := m.due[:0]
	for _, d := range m.due {
		if d.after--; d.after <= 0 || all {
			m.add(d.line)
		} else {
			later = append(later, d)
		}
	}
	m.due = later
}

func (m *maker) add(lines string) {
	for line := range strings.SplitSeq(lines, ";") {
		step, err := ParseStep(line)
		if err != nil {
			panic(err) // of this file
		}
		if step.Verb == "wait" && duration(step.Word(0)) > 90*time.Second {
			m.deaths = 0
		}
		m.s.Steps = append(m.s.Steps, step)
	}
}

// may says whether r can happen, and counts it. Most calls must end as they should, or the judge learns little; and a process that dies
// five times in a row is not started again.
func (m *maker) may(r row) bool {
	deaths := m.deathsOf(r)
	if !m.has(r.only) || r.cost > 0 && (m.touched+r.cost)*4 > m.asked || m.deaths+deaths > 4 {
		return false
	}
	m.touched += r.cost
	m.deaths += deaths
	m.settle(r)
	return true
}

// settle adds the setting that r needs.
func (m *maker) settle(r row) {
	if strings.Contains(r.only, "unbeaten") && !m.s.Has("heartbeat:") {
		m.s.Settings = append(m.s.Settings, "heartbeat: 0s")
	}
}

// deathsOf returns how many processes on stdio die in a row because of r.
func (m *maker) deathsOf(r row) int {
	if m.s.Server.Transport == "stdio" && strings.Contains(r.only, "death") {
		return max(1, strings.Count(r.text, "server restart"))
	}
	return 0
}

// has says whether the world has what is needed.
func (m *maker) has(only string) bool {
	waits := func(line string) bool {
		return slices.ContainsFunc(m.due, func(d due) bool { return strings.HasPrefix(d.line, line) })
	}
	remote := m.s.Server.Transport != "stdio"
	for what := range strings.FieldsSeq(only) {
		ok := false
		switch what {
		case "http", "sse", "stdio": // the server
			ok = m.s.Server.Transport == what
		case "remote":
			ok = remote
		case "death":
			ok = !waits("server up") && (remote || m.deaths < 4 && !slices.Contains(m.s.Settings, "upstream.restart.max: 0"))
		case "clients":
			ok = m.web
		case "gate":
			ok = m.s.Has("gates: [{tool: act, params: [extra], source: kinds")
		case "adapter":
			ok = m.s.Has("adapters.")
		case "users":
			ok = slices.ContainsFunc(m.s.Clients, func(c Client) bool { return c.User != "" })
		case "tokens": // each client on HTTP has one
			ok = m.web && m.s.Server.Wants != "own" && !slices.ContainsFunc(m.s.Clients, func(c Client) bool { return c.Transport != "stdio" && c.User == "" })
		case "refuses": // dragoman itself refuses clients
			ok = m.s.Has("auth.tokens:")
		case "thief": // a session is its user's only if dragoman itself knows who that is
			ok = m.client.Transport == "http" && m.client.User != "" && m.other() != "" && (m.s.Has("auth.tokens:") || m.s.Has("bridge.principal:"))
		case "capped":
			ok = m.s.Has("transform:")
		case "modern":
			ok = slices.ContainsFunc(m.s.Clients, func(c Client) bool { return c.Revision == revisions[modern] })
		case "silence": // and a client that is asked in the answer of its call
			ok = m.s.Has("upstream.silence_timeout: 20s") && m.client.Revision == revisions[modern]
		case "pipe":
			ok = m.s.Server.Transport != "http"
		case "gated":
			ok = m.s.Has("gates: [{tool: act, params: [extra], source: noop")
		case "store":
			ok = m.s.Store
		case "replica": // only one is away at a time
			ok = m.web && !waits("operator start")
		case "several":
			ok = m.s.Replicas > 1
		case "link":
			ok = m.web || remote
		case "web": // this client
			ok = m.client.Transport != "stdio"
		case "new":
			ok = m.client.Revision == revisions[modern]
		case "unbeaten": // what writes to a client that reads nothing holds a mutex, and in a bubble time does not pass for a heartbeat that waits for it
			ok = !m.s.Has("heartbeat:") || m.s.Has("heartbeat: 0s")
		case "tasks":
			ok = m.s.Server.Tasks && m.client.Revision >= revisions[modern-1]
		case "old":
			ok = m.client.Revision != revisions[modern]
		case "calls":
			ok = m.calls[m.client.Name] > 0
		default:
			panic("no condition " + what)
		}
		if !ok {
			return false
		}
	}
	return true
}

// expand makes the text of a row a line. What would be 0 is left out.
func (m *maker) expand(text string) string {
	var line []string
	for word := range strings.FieldsSeq(text) {
		name, value, named := strings.Cut(word, "=")
		if !named {
			value = word
		}
		var all []string
		for part := range strings.SplitSeq(value, ",") {
			all = append(all, m.word(part))
		}
		switch value = strings.Join(all, ","); {
		case !named:
			line = append(line, value)
		case value != "0" && value != "0s":
			line = append(line, name+"="+value)
		}
	}
	return strings.Join(line, " ")
}

// word says what a word of a row stands for.
func (m *maker) word(word string) string {
	if strings.Contains(word, "|") {
		word = m.of(word)
	}
	if low, high, ok := strings.Cut(word, ".."); ok {
		before := low[:strings.LastIndex(low, "/")+1]
		return before + m.between(low[len(before):], high)
	}
	last := m.calls[m.client.Name]
	switch word {
	case "C":
		return m.client.Name
	case "N": // a new call
		m.asked++
		m.calls[m.client.Name]++
		return fmt.Sprint(last + 1)
	case "IT": // the last call
		return fmt.Sprint(last)
	case "CALL": // the last call, by its mark
		return fmt.Sprint(m.client.Name, ".", last)
	case "LAST": // one of the last
		return fmt.Sprint(last - m.IntN(min(last, 3)))
	case "ANY":
		return m.s.Clients[m.IntN(len(m.s.Clients))].Name
	case "OTHER":
		return m.other()
	case "R":
		return m.replica
	case "LINK":
		return m.link()
	case "HOST":
		if m.s.Server.Transport == "stdio" || m.s.Replicas > 1 && m.oneIn(3) {
			return m.replica
		}
		return "server"
	case "ASK":
		return m.of("elicit|elicit|elicit|sample|sample|roots|roots|url|visit")
	case "APIPLAN":
		for {
			if r := m.draw(ofAPI); m.may(r) {
				return m.expand(r.text)
			}
		}
	case "PLAN":
		for {
			if r := m.draw(m.profile.plans); m.may(r) {
				return m.expand(r.text)
			}
		}
	}
	return word
}

// other is a client with a session that is not the user's of C; "" for none.
func (m *maker) other() string {
	for _, c := range m.s.Clients {
		if c.Transport == "http" && c.Revision != revisions[modern] && c.User != "" && c.User != m.client.User {
			return c.Name
		}
	}
	return ""
}

// between draws a number or a duration, in milliseconds or whole seconds.
func (m *maker) between(low, high string) string {
	if from, err := strconv.Atoi(low); err == nil {
		to, _ := strconv.Atoi(high)
		return fmt.Sprint(from + m.IntN(to-from+1))
	}
	from, to, unit := duration(low), duration(high), time.Millisecond
	if from >= time.Second {
		unit = time.Second
	}
	return (from + time.Duration(m.Int64N(int64((to-from)/unit)+1))*unit).String()
}

// link draws the two ends of one. Pipes have no faults.
func (m *maker) link() string {
	var all []string
	for _, c := range m.s.Clients {
		if c.Transport != "stdio" {
			all = append(all, c.Name+" *", c.Name+" "+m.replica)
		} else if m.s.Server.Transport != "stdio" {
			all = append(all, "p"+c.Name[1:]+" server")
		}
	}
	if m.web && m.s.Server.Transport != "stdio" {
		all = append(all, "* server", m.replica+" server")
	}
	if m.s.Replicas > 1 {
		all = append(all, "r1 r2")
	}
	if m.s.Has("adapters.") {
		all = append(all, "* api")
	}
	at := all[m.IntN(len(all))]
	if a, b, _ := strings.Cut(at, " "); m.oneIn(4) {
		return b + " " + a
	}
	return at
}
