package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profile is a kind of world. Its texts are weights: what happens, what the server does with calls, and how time passes between steps.
type profile struct {
	name                string
	steps, plans, waits weights
}

const (
	everyday = "call=50 read=5 list=6 note=3 ping=3 prompt=2 complete=1 roots=1 level=1 serverping=2 "
	ordinary = "quick=40 progress=12 logs=6 slow=12 big=3 json=4 sse=6 ask=10 together=2 odd=5 "
	brisk    = "none=40 short=48 second=8 ten=3 minute=1"
)

// profiles are the kinds of worlds. Each goes deep in one direction, but for the last.
var profiles = []profile{
	kind("calm", everyday+"batch=3 changed=2 update=2 subscribe=2 log=2", ordinary, brisk),
	kind("calls", everyday+"call=30 cancel=12 same=6 again=6 batch=8 hang=4 raw=2", ordinary+"progress=10 slow=20 odd=8 bad=4 cancelled=6", "none=60 short=38 second=2"),
	kind("questions", everyday+"cancel=5 hang=3 leave=2 back=4 delete=1 closestreams=2", "ask=60 together=15 asklate=12 askodd=12 withdrawn=6 quick=15", "none=40 short=40 second=15 ten=4 minute=1"),
	kind("subscriptions", everyday+"subscribe=14 unsubscribe=5 update=22 changed=14 log=5 closestreams=3 leave=3 back=5 restart=2 cut=2 stop=1", ordinary, "none=35 short=50 second=11 ten=3 minute=1"),
	kind("leaving", everyday+"leave=6 back=9 forget=4 delete=5 hang=6 begin=3 deaf=2 garbage=4 cancel=3 update=3 subscribe=2", ordinary+"slow=20 progress=15 sse=15", "none=45 short=40 second=10 ten=4 minute=1"),
	kind("links", everyday+"cut=7 half=4 stall=5 trickle=4 vanish=2 refuse=2 dialhang=2 heal=2 back=5 cancel=3", ordinary+"progress=10 sse=10 big=8 slow=10", "none=45 short=40 second=10 ten=4 minute=1"),
	kind("restarts", everyday+"restart=5 die=4 lose=4 closestreams=3 status=2 slow=2 subscribe=3 update=3 back=3 cancel=3", ordinary+"bad=4 cut=1", "none=40 short=40 second=12 ten=5 minute=3"),
	kind("replicas", everyday+"call=30 stop=4 kill=3 store=4 reload=2 cut=3 back=5 leave=3 subscribe=3 update=4 delete=2 lose=1", ordinary+"ask=15", brisk),
	kind("shutdown", everyday+"stop=6 reload=6 kill=1 back=4 restart=1 begin=2 subscribe=2", ordinary+"slow=25 ask=15", "none=50 short=35 second=8 ten=6 minute=1"),
	kind("limits", everyday+"deaf=2 serverdeaf=2 slow=3 stall=2 vanish=1 hang=2 cancel=4 back=2", ordinary+"slow=10 asklate=10 never=4", "none=30 short=40 second=12 ten=10 minute=7 long=1"),
	kind("soup", everyday+"cancel=5 same=2 again=2 batch=3 hang=3 leave=2 back=4 forget=2 delete=2 deaf=1 garbage=2 begin=2 subscribe=4 unsubscribe=2 update=5 changed=4 log=2 "+
		"restart=2 die=1 lose=1 closestreams=2 status=1 slow=1 serverdeaf=1 cut=3 half=1 stall=2 trickle=2 vanish=1 refuse=1 dialhang=1 reload=2 stop=1 kill=1 store=1 raw=1",
		ordinary+"bad=4 cancelled=3 asklate=4 askodd=4 never=1", "none=40 short=40 second=12 ten=6 minute=2"),
}

func kind(name, steps, plans, waits string) profile {
	return profile{name, weigh(steps), weigh(plans), weigh(waits)}
}

// settings are lines of a configuration that users have, and for which worlds: stdio and remote are servers, modern and handshake clients.
var settings = []struct{ line, only string }{
	{"upstream.share_child: true", "stdio"},
	{"upstream.restart.max: 0", "stdio"},
	{"upstream.restart.max: 50", "stdio"},
	{"upstream.unread_timeout: 30s", "stdio"},
	{"session.max_processes: 4", "stdio"},
	{"upstream.transport: http", "http"},
	{"upstream.transport: sse", "sse"},
	{"upstream.cookies: all", "remote"},
	{"upstream.connect_timeout: 1s", "remote"},
	{"upstream.silence_timeout: 20s", ""},
	{"upstream.silence_timeout: 1m", ""},
	{"upstream.handshake_timeout: 10s", ""},
	{"upstream.keepalive: 20s", ""},
	{"limits.time: {tools/call: {first_byte: 5s, silence: 30s}}", ""},
	{"limits.time: {tools/call: {silence: 20m}, tools/list: {first_byte: 3s}}", ""},
	{"limits.replay: 0", ""},
	{"limits.replay: 4", ""},
	{"limits.client_message: 64KiB", ""},
	{"limits.upstream_message: 1MiB", ""},
	{"limits.in_hand: 16MiB", ""},
	{"heartbeat: 1s", "web"},
	{"heartbeat: 0s", "web"},
	{"session.idle_timeout: 1m", "web"},
	{"session.max: 3", "web"},
	{"session.max_age: 5m", "web"},
	{"session.without: open", "web"},
	{"bridge.park_timeout: 15s", "modern"},
	{"bridge.idle_timeout: 20s", "modern"},
	{"bridge.max_sessions: 2", "modern"},
	{"bridge.ttl: 10s", "modern"},
	{"bridge.default_log_level: debug", ""},
	{"bridge.default_log_level: off", ""},
	{"bridge.cache.bytes: 1MiB", ""},
	{"contract.elicitation_fallback: decline", ""},
	{"contract.schema_dialect: off", ""},
	{"contract.tasks: strip", ""},
	{"contract.resource_contents_name: off", ""},
	{"footprint.drop: [titles, echoes, examples]", ""},
	{"footprint.hoist: apply", ""},
	{"transform: {default_max_tokens: 300}", ""},
	{`transform: {default_max_tokens: 100, more_tool: {enabled: "on"}}`, ""},
	{"gates: [{tool: act, params: [extra], source: noop, list: items, match: {name: x}, capability: x, error_code: no_extra, on_unavailable: allow}]", ""},
	{"inspect.enabled: true", "web"},
	{"shutdown.drain: 1s", ""},
}

// revisions of the protocol, oldest first; the last has no sessions.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

const modern = 4 // the place of the first revision without a handshake

// Make returns the script of a seed: always the same one.
func Make(seed uint64) *Script {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 46)), s: &Script{Seed: seed}, calls: map[string]int{}}
	m.world()
	m.profile = profiles[m.IntN(len(profiles))]
	if m.profile.name == "replicas" && m.s.Replicas < 2 && len(m.web) > 0 {
		m.s.Replicas, m.s.Store = 2+m.IntN(2), m.oneIn(1.5)
	}
	m.settings()
	m.schedule()
	return m.s
}

// maker makes a script.
type maker struct {
	*rand.Rand
	s       *Script
	profile profile
	web     []Client       // of those on HTTP
	calls   map[string]int // the number of each client's last call
	asked   int            // calls so far
	touched int            // those of them that faults may end, about
	deaths  int            // of processes on stdio, in a row
	due     []due          // what has to follow
}

// due is a step that ends a fault, after some more steps.
type due struct {
	line  string
	after int
}

func (m *maker) oneIn(n float64) bool { return m.Float64()*n < 1 }

func (m *maker) of(words ...string) string { return words[m.IntN(len(words))] }

// weights are names, and how often each is drawn.
type weights struct {
	names []string
	upTo  []int // the sum of the weights so far
}

// weigh reads "call=50 list=6". A name may stand there twice.
func weigh(text string) (w weights) {
	sum := 0
	for word := range strings.FieldsSeq(text) {
		name, n, _ := strings.Cut(word, "=")
		weight, err := strconv.Atoi(n)
		if err != nil {
			panic(err) // of this file
		}
		sum += weight
		w.names, w.upTo = append(w.names, name), append(w.upTo, sum)
	}
	return w
}

// pick draws a name.
func (m *maker) pick(w weights) string {
	at := m.IntN(w.upTo[len(w.upTo)-1])
	return w.names[slices.IndexFunc(w.upTo, func(sum int) bool { return at < sum })]
}

// between is a duration, in milliseconds or whole seconds.
func (m *maker) between(low, high time.Duration) time.Duration {
	unit := time.Millisecond
	if low >= time.Second {
		unit = time.Second
	}
	return low + time.Duration(m.Int64N(int64((high-low)/unit)+1))*unit
}

func (m *maker) world() {
	m.s.Server.Transport = m.pick(weigh("http=5 sse=2 stdio=4"))
	m.s.Server.Revision = revisions[m.IntN(len(revisions))]
	if m.s.Server.Transport == "sse" {
		m.s.Server.Revision = revisions[m.IntN(modern)]
	} else if m.oneIn(7) {
		m.s.Server.Revision = "both"
	}
	for i := range 1 + m.IntN(4) {
		c := Client{Name: fmt.Sprint("c", i+1), Transport: m.pick(weigh("http=6 sse=2 stdio=3")), Revision: revisions[m.IntN(len(revisions))]}
		if c.Transport == "sse" {
			c.Revision = revisions[m.IntN(modern)]
		}
		if m.s.Clients = append(m.s.Clients, c); c.Transport != "stdio" {
			m.web = append(m.web, c)
		}
	}
	m.s.Replicas = 1
	if len(m.web) > 0 && m.oneIn(3) {
		m.s.Replicas = 2 + m.IntN(2)
	}
	m.s.Store = len(m.web) > 0 && (m.s.Replicas > 1 && !m.oneIn(3) || m.oneIn(6))
	m.s.Portable = m.oneIn(8)
}

func (m *maker) settings() {
	if !m.oneIn(3) {
		return
	}
	has := map[string]bool{"": true, m.s.Server.Transport: true, "remote": m.s.Server.Transport != "stdio", "web": len(m.web) > 0}
	for _, c := range m.s.Clients {
		has["modern"] = has["modern"] || c.Revision == revisions[modern]
	}
	keys := map[string]bool{}
	for range 1 + m.IntN(4) {
		set := settings[m.IntN(len(settings))]
		key, _, _ := strings.Cut(set.line, ": ")
		// a server that is pinned to a transport or never asked twice is no server of both eras less
		if has[set.only] && !keys[key] {
			keys[key] = true
			m.s.Settings = append(m.s.Settings, set.line)
		}
	}
	slices.Sort(m.s.Settings)
}

func (m *maker) schedule() {
	for _, c := range m.s.Clients {
		if !m.oneIn(4) {
			m.add(c.Name + " begin")
		}
	}
	m.wait(weigh("short=3 none=1 second=1"))
	for n := 30 + m.IntN(41); n > 0; {
		for i := 0; i < len(m.due); {
			if m.due[i].after--; m.due[i].after > 0 {
				i++
				continue
			}
			m.add(m.due[i].line)
			m.due = slices.Delete(m.due, i, i+1)
		}
		if what := m.pick(m.profile.steps); m.step(what) {
			n--
			m.wait(m.profile.waits)
		}
	}
	for _, d := range m.due {
		m.add(d.line)
	}
}

func (m *maker) add(line string) {
	step, err := ParseStep(line)
	if err != nil {
		panic(err) // of this file
	}
	m.s.Steps = append(m.s.Steps, step)
}

func (m *maker) wait(w weights) {
	var d time.Duration
	switch m.pick(w) {
	case "short":
		d = m.between(1*time.Millisecond, 500*time.Millisecond)
	case "second":
		d = m.between(time.Second, 5*time.Second)
	case "ten":
		d = m.between(8*time.Second, 20*time.Second)
	case "minute":
		d = m.between(time.Minute, 2*time.Minute)
	case "long":
		d = 10 * time.Minute
	default:
		return
	}
	if d > 90*time.Second {
		m.deaths = 0
	}
	m.add("wait " + d.String())
}

// fault says whether there is room for a fault that touches about n calls: at most a fifth of the calls may be.
func (m *maker) fault(n int) bool {
	if (m.touched+n)*6 > m.asked {
		return false
	}
	m.touched += n
	return true
}

// dies is fault for the processes of the server. One that has died five times in a row is not started again.
func (m *maker) dies(n int) bool {
	if m.s.Server.Transport == "stdio" {
		if m.deaths == 4 || slices.Contains(m.s.Settings, "upstream.restart.max: 0") || !m.fault(n) {
			return false
		}
		m.deaths++
		return true
	}
	return m.fault(n)
}

// waiting says whether line has to follow yet.
func (m *maker) waiting(prefix string) bool {
	return slices.ContainsFunc(m.due, func(d due) bool { return strings.HasPrefix(d.line, prefix) })
}

func (m *maker) client() Client { return m.s.Clients[m.IntN(len(m.s.Clients))] }

// number is that of a new call of c.
func (m *maker) number(c Client) int {
	m.asked++
	m.calls[c.Name]++
	return m.calls[c.Name]
}

// recent is the number of one of the last calls of c; 0 if there is none.
func (m *maker) recent(c Client) int {
	last := m.calls[c.Name]
	return last - m.IntN(min(last, 3)+1)
}

// step adds a step of a kind, if one fits this world.
func (m *maker) step(what string) bool {
	c := m.client()
	pipe, old, recent := c.Transport == "stdio", c.Revision != revisions[modern], m.recent(c)
	about := func(ok bool, format string, args ...any) bool {
		if ok {
			m.add(c.Name + " " + fmt.Sprintf(format, args...))
		}
		return ok
	}
	switch what {
	case "call", "read":
		return about(true, "%s %d %s", what, m.number(c), m.plan())
	case "list":
		return about(true, "list %s", m.of("tools", "tools", "resources", "prompts", "templates"))
	case "note":
		return about(true, "note note://%d", 1+m.IntN(9))
	case "prompt":
		return about(true, "prompt")
	case "complete":
		return about(true, "raw completion/complete")
	case "ping", "roots":
		return about(old, "%s", what)
	case "level":
		return about(old, "level %s", m.of("debug", "info", "warning", "error"))
	case "raw":
		return about(true, "raw %s", m.of("x/unknown", "tools/unknown", "resources/templates/list", "server/discover", "tasks/list"))
	case "batch":
		n := ""
		for range 2 + m.IntN(3) {
			n += fmt.Sprintf(" %d", m.number(c))
		}
		return about(true, "batch%s %s", n, m.plan())
	case "cancel":
		return recent > 0 && m.fault(1) && about(true, "cancel %d", recent)
	case "hang":
		return recent > 0 && !pipe && m.fault(1) && about(true, "hang %d", recent)
	case "same", "again":
		return recent > 0 && m.fault(1) && about(true, "%s %d %d %s", what, m.number(c), recent, m.plan())
	case "begin":
		return about(true, "begin")
	case "leave", "forget":
		return m.fault(2) && about(!pipe, "%s", what)
	case "delete":
		return m.fault(2) && about(!pipe && old, "delete")
	case "back":
		return about(!pipe, "%s", m.of("back", "back", "back none"))
	case "deaf":
		return m.fault(1) && about(true, "deaf %s", m.between(5*time.Second, time.Minute))
	case "garbage":
		return about(true, "garbage %s", m.of("json", "http", "utf8", "huge", "depth", "unknown"))
	case "subscribe", "unsubscribe":
		return about(true, "%s note://%d", what, 1+m.IntN(4))
	case "update":
		m.add(fmt.Sprintf("server update note://%d", 1+m.IntN(4)))
	case "changed":
		m.add("server changed " + m.of("tools", "resources", "prompts"))
	case "log":
		m.add(fmt.Sprintf("server log %d", 1+m.IntN(3)))
	case "serverping":
		m.add("server ping")
	case "closestreams":
		m.add("server closestreams")
	case "restart", "lose", "die":
		return m.serverFault(what)
	case "slow":
		if !m.fault(1) {
			return false
		}
		m.add(fmt.Sprintf("server slow %s", m.between(time.Second, 4*time.Second)))
		m.due = append(m.due, due{"server slow 0s", 2 + m.IntN(6)})
	case "serverdeaf":
		if !m.fault(2) {
			return false
		}
		m.add(fmt.Sprintf("server deaf %s", m.between(5*time.Second, 2*time.Minute)))
	case "status":
		if m.s.Server.Transport != "http" || !m.fault(2) {
			return false
		}
		m.add(fmt.Sprintf("server status %s %s", m.of("503", "500", "429", "502"), m.between(time.Second, 10*time.Second)))
	case "cut", "half", "stall", "trickle", "vanish", "refuse", "dialhang", "heal":
		return m.link(what)
	case "reload":
		m.add("operator reload")
	case "stop", "kill", "store":
		return m.operator(what)
	default:
		panic("no step " + what)
	}
	return true
}

func (m *maker) serverFault(what string) bool {
	if m.waiting("server up") || what == "lose" && m.s.Server.Transport == "stdio" || !m.dies(2) {
		return false
	}
	m.add("server " + what)
	if what == "die" && m.s.Server.Transport != "stdio" {
		m.due = append(m.due, due{"server up", 1 + m.IntN(3)})
	}
	return true
}

// link adds a fault of a link. Pipes have none.
func (m *maker) link(what string) bool {
	remote := m.s.Server.Transport != "stdio"
	var links []string
	for _, c := range m.s.Clients {
		if c.Transport != "stdio" {
			links = append(links, c.Name+" *", fmt.Sprintf("%s r%d", c.Name, 1+m.IntN(m.s.Replicas)))
		} else if remote {
			links = append(links, "p"+c.Name[1:]+" server")
		}
	}
	if remote && len(m.web) > 0 {
		links = append(links, "* server", fmt.Sprintf("r%d server", 1+m.IntN(m.s.Replicas)))
	}
	if m.s.Replicas > 1 {
		links = append(links, "r1 r2")
	}
	switch {
	case what == "heal":
		m.add("link heal")
		return true
	case len(links) == 0 || !m.fault(2):
		return false
	case what == "refuse" || what == "dialhang":
		host := "server"
		if !remote || m.s.Replicas > 1 && m.oneIn(3) {
			host = fmt.Sprint("r", 1+m.IntN(m.s.Replicas))
		}
		verb := map[string]string{"refuse": "refuse", "dialhang": "hang"}[what]
		m.add(fmt.Sprintf("link %s %s %s", host, verb, m.between(time.Second, 4*time.Second)))
		return true
	}
	at := m.of(links...)
	if (what == "half" || what == "cut") && m.oneIn(4) {
		ends := strings.Fields(at)
		at = ends[1] + " " + ends[0]
	}
	switch what {
	case "cut":
		at += fmt.Sprintf(" cut %d", m.IntN(2)*m.IntN(1200))
	case "stall", "trickle":
		at += fmt.Sprintf(" %s %s", what, m.between(time.Second, 8*time.Second))
	default:
		at += " " + what
	}
	m.add("link " + at)
	return true
}

// operator adds what an operator does to a replica or to the store. Only one replica is away at a time.
func (m *maker) operator(what string) bool {
	switch {
	case what == "store":
		if m.s.Store && m.fault(1) {
			m.add("operator store " + m.of(fmt.Sprint("away ", m.between(time.Second, 10*time.Second)), "empty", "slow 150ms"))
			return true
		}
	case len(m.web) > 0 && !m.waiting("operator start") && m.fault(2):
		r := 1 + m.IntN(m.s.Replicas)
		m.add(fmt.Sprintf("operator %s r%d", what, r))
		m.due = append(m.due, due{fmt.Sprintf("operator start r%d", r), 1 + m.IntN(4)})
		return true
	}
	return false
}

// plan is what becomes of a call.
func (m *maker) plan() string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	short := func() time.Duration { return m.between(5*time.Millisecond, 400*time.Millisecond) }
	ask := func() string {
		var all []string
		for range 1 + m.IntN(3)*m.IntN(2) {
			all = append(all, m.of("elicit", "elicit", "sample", "roots"))
		}
		return strings.Join(all, ",")
	}
	what := m.pick(m.profile.plans)
	bad := map[string]int{"bad": 1, "cut": 1, "never": 1, "cancelled": 1, "askodd": 1, "asklate": 1, "withdrawn": 1}[what]
	if bad > 0 && !m.fault(bad) {
		what = "quick"
	}
	switch what {
	case "progress":
		add("progress=%d gap=%s", 1+m.IntN(5), short())
	case "logs":
		add("logs=%d gap=%s", 1+m.IntN(3), short())
	case "slow":
		add("wait=%s", m.of(short().String(), m.between(time.Second, 5*time.Second).String(), m.between(8*time.Second, 30*time.Second).String()))
	case "big":
		add("size=%d", []int{3000, 20_000, 100_000, 700_000}[m.IntN(4)])
	case "ask":
		add("ask=%s", ask())
	case "together":
		add("ask=%s,%s together=yes", ask(), ask())
	case "asklate":
		add("ask=%s late=%s", ask(), m.between(3*time.Second, 40*time.Second))
	case "askodd":
		add("ask=%s reply=%s", ask(), m.of(Decline, ReplyTwice, ReplyError, Decline, ReplyNever))
	case "withdrawn":
		add("ask=%s late=%s cancel=%s", ask(), m.between(time.Second, 4*time.Second), short())
	case "cancelled":
		add("wait=%s cancel=%s", m.between(time.Second, 9*time.Second), short())
	case "odd":
		add("how=%s", m.of(Twice, Error, Null, Other))
	case "bad":
		add("how=%s", m.of(Closes, Status, Busy, Garbage))
	case "cut":
		if m.dies(1) {
			add("how=cut")
		}
	case JSON, SSE, Never:
		add("how=%s", what)
	}
	if what != "quick" && m.oneIn(3) && !strings.Contains(b.String(), "wait=") {
		add("wait=%s", short())
	}
	if (what == SSE || what == "slow" || what == "ask") && m.oneIn(3) {
		add("progress=%d", 1+m.IntN(3))
	}
	if m.oneIn(10) && !strings.Contains(b.String(), "size=") {
		add("size=%d", m.IntN(2000))
	}
	return strings.TrimSpace(b.String())
}
