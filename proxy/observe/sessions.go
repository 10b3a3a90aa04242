package observe

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// SessionRow is what is shown of a session, or of a client without sessions.
type SessionRow struct {
	Session        string   `json:"session,omitempty"`
	Principal      string   `json:"principal,omitempty"`
	Client         string   `json:"client,omitempty"`
	ClientRevision string   `json:"client_rev,omitempty"`
	Server         string   `json:"server,omitempty"`
	ServerRevision string   `json:"server_rev,omitempty"`
	Transport      string   `json:"transport,omitempty"`
	Era            string   `json:"era"` // same or bridge
	Since          string   `json:"since"`
	Ended          string   `json:"ended,omitempty"` // "" while it lives, or for a client without sessions
	Why            string   `json:"why,omitempty"`   // it ended
	Calls          int      `json:"calls"`
	Open           int      `json:"open,omitempty"`
	Streams        int      `json:"streams,omitempty"`
	Asking         int      `json:"asking,omitempty"`
	Errors         int      `json:"errors"`
	P95            float64  `json:"p95_ms,omitempty"`
	Rules          []string `json:"rules,omitempty"`
}

// Bounds of what is counted by session.
const (
	maxSessions = 500
	maxSamples  = 128
	// idleSession is how long a client without a session, whose end is not known, is shown.
	idleSession = 10 * time.Minute
)

// sessionTally counts the calls of one session.
type sessionTally struct {
	peers               *Peers
	since, used         time.Time
	ended               time.Time // zero while it lives
	why                 string    // it ended
	calls, open, asking int
	errors              int
	samples             [maxSamples]time.Duration
	sampled             int
	rules               map[string]bool
}

// sessionTallies are the tallies by session.
type sessionTallies map[string]*sessionTally

// keyOf returns what tells sessions apart. A client without sessions counts as one.
func keyOf(p *Peers) string {
	if p.Session != "" {
		return p.Session
	}
	return p.Principal + "\x00" + p.Client + "\x00" + p.ClientRevision
}

func (t sessionTallies) of(p *Peers, at time.Time) *sessionTally {
	key := keyOf(p)
	s := t[key]
	if s == nil {
		if len(t) >= maxSessions {
			t.forgetOldest()
		}
		s = &sessionTally{since: at, rules: map[string]bool{}}
		t[key] = s
	}
	s.peers, s.used = p, at
	return s
}

// forgetOldest forgets the session that was used the longest time ago, and one that has ended before one that lives.
func (t sessionTallies) forgetOldest() {
	oldest, of := "", (*sessionTally)(nil)
	for key, s := range t {
		if of == nil || s.lives() == of.lives() && s.used.Before(of.used) || !s.lives() && of.lives() {
			oldest, of = key, s
		}
	}
	delete(t, oldest)
}

// known reports whether anybody speaks in the call: a message that was refused before there was a session has no revision
// of a server.
func known(p *Peers) bool { return p.ServerRevision != "" }

func (t sessionTallies) began(c *Call) {
	p := c.peers()
	if !known(p) {
		return
	}
	s := t.of(p, c.Began)
	if !c.Server {
		s.calls++
	}
	s.open++
}

func (t sessionTallies) asked(c *Call, by int) {
	if s := t[keyOf(c.peers())]; s != nil {
		s.asking = max(0, s.asking+by)
	}
}

func (t sessionTallies) ended(e *End, bad bool) {
	s := t[keyOf(e.Call.peers())]
	if s == nil {
		return
	}
	s.open = max(0, s.open-1)
	if e.Call.Server {
		return
	}
	if bad {
		s.errors++
	}
	s.samples[s.sampled%maxSamples] = e.At.Sub(e.Call.Began)
	s.sampled++
}

// maxEnded bounds the sessions that are remembered after their end.
const maxEnded = 100

// lives reports whether the session has not ended, as far as that is known.
func (s *sessionTally) lives() bool { return s.ended.IsZero() }

// heard notes that a session began or ended.
func (t sessionTallies) heard(told *Session) {
	s := t.of(&told.Peers, told.At)
	if !told.Ended {
		if told.Call != nil { // initialize, which had no session when it began
			s.calls++
		}
		s.ended, s.why = time.Time{}, ""
		return
	}
	s.ended, s.why, s.open, s.asking = told.At, told.Why, 0, 0
	if !told.Made.IsZero() {
		s.since = told.Made
	}
	t.boundEnded()
}

// boundEnded forgets the session that ended first if there are too many that have ended.
func (t sessionTallies) boundEnded() {
	n, first, of := 0, "", (*sessionTally)(nil)
	for key, s := range t {
		if s.lives() {
			continue
		}
		n++
		if of == nil || s.ended.Before(of.ended) {
			first, of = key, s
		}
	}
	if n > maxEnded {
		delete(t, first)
	}
}

// maxRules bounds the rules that are noted of one session.
const maxRules = 100

func (t sessionTallies) changed(p *Peers, rules ...string) {
	if s := t[keyOf(p)]; s != nil {
		for _, rule := range rules {
			if len(s.rules) < maxRules {
				s.rules[rule] = true
			}
		}
	}
}

// SessionOf returns what is shown of a session whose calls were not counted.
func SessionOf(p *Peers, since time.Time, open, streams, asking int, redact Redactor) SessionRow {
	row := SessionRow{
		Session: p.Session, Principal: p.Principal, Client: redact.Text(p.Client), ClientRevision: p.ClientRevision,
		Server: redact.Text(p.Server), ServerRevision: p.ServerRevision, Transport: p.ClientTransport, Era: "same",
		Since: seconds(since), Open: open, Streams: streams, Asking: asking,
	}
	if p.Bridged {
		row.Era = "bridge"
	}
	return row
}

func (s *sessionTally) view(redact Redactor) SessionRow {
	out := SessionOf(s.peers, s.since, s.open, 0, s.asking, redact)
	out.Calls, out.Errors = s.calls, s.errors
	if !s.lives() {
		out.Ended, out.Why = seconds(s.ended), redact.Text(s.why)
	}
	if n := min(s.sampled, maxSamples); n > 0 {
		sorted := slices.Clone(s.samples[:n])
		slices.Sort(sorted)
		out.P95 = inMS(sorted[int(math.Ceil(0.95*float64(n)))-1])
	}
	out.Rules = slices.Sorted(maps.Keys(s.rules))
	return out
}

// seconds is how times are written that need not be exact.
func seconds(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// errorRate counts the errors of the last minute, by second.
type errorRate struct {
	second [60]int64
	count  [60]int
}

func (e *errorRate) add(at time.Time) {
	s := at.Unix()
	if e.second[s%60] != s {
		e.second[s%60], e.count[s%60] = s, 0
	}
	e.count[s%60]++
}

func (e *errorRate) since(now time.Time) (n int) {
	for i, s := range e.second {
		if now.Unix()-s < 60 {
			n += e.count[i]
		}
	}
	return n
}

// LossRow is what is shown of what one rule has lost and changed. Count is how much was lost, and may be 0.
type LossRow struct {
	Loss
	Changed int    `json:"changed"`
	Example uint64 `json:"example"`
	Does    string `json:"does,omitempty"`
}

// Totals is what the ring adds up.
type Totals struct {
	Calls        uint64       `json:"calls"`
	ErrorsPerMin int          `json:"errors_per_min"`
	Dropped      uint64       `json:"dropped"`
	Ring         RingSize     `json:"ring"`
	Sessions     []SessionRow `json:"sessions"`
}

// RingSize is how full the ring is.
type RingSize struct {
	Rows  int `json:"rows"`
	Bytes int `json:"bytes"`
}

// Totals returns what the ring adds up.
func (r *Ring) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	t := Totals{Calls: r.newest, ErrorsPerMin: r.errors.since(now), Dropped: r.dropped, Ring: RingSize{len(r.rows), r.bytes}, Sessions: []SessionRow{}}
	for key, s := range r.sessions {
		if !r.past && s.peers.Session == "" && s.open == 0 && now.Sub(s.used) > idleSession {
			delete(r.sessions, key)
			continue
		}
		if r.past && !known(s.peers) || !r.past && !s.lives() { // it became a session later on, or has ended
			continue
		}
		t.Sessions = append(t.Sessions, s.view(r.redact))
	}
	slices.SortFunc(t.Sessions, func(a, b SessionRow) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Session, b.Session))
	})
	return t
}

// Losses returns by rule what was lost and what was changed; what was lost comes first.
func (r *Ring) Losses() []LossRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	does := map[translate.Direction]map[Loss]string{}
	for _, d := range []translate.Direction{translate.Up, translate.Down, translate.Both} {
		does[d] = whatRulesDo(d)
	}
	list := []LossRow{}
	for what, t := range r.losses {
		rule := Loss{Rule: what.Rule} // what may be a part of what the rule is about
		said := cmp.Or(does[t.to][what], does[t.to][rule], does[translate.Both][rule])
		list = append(list, LossRow{Loss{what.Rule, what.What, t.lost}, t.changed, t.example, said})
	}
	slices.SortFunc(list, func(a, b LossRow) int {
		return cmp.Or(cmp.Compare(min(b.Count, 1), min(a.Count, 1)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.What, b.What))
	})
	return list
}

// whatRulesDo returns what rules do to messages of a direction, in words, by their number and what they are about, and by their
// number alone.
func whatRulesDo(d translate.Direction) map[Loss]string {
	does := map[Loss]string{}
	for _, rule := range translate.Rules() {
		if rule.Direction != d && d != translate.Both && rule.Direction != translate.Both {
			continue
		}
		for _, of := range []Loss{{Rule: rule.ID, What: rule.What}, {Rule: rule.ID}} {
			switch said := does[of]; {
			case said == "":
				does[of] = rule.Does
			case !strings.Contains(said, rule.Does): // several rules of one number are about the same thing
				does[of] = said + "; or " + rule.Does
			}
		}
	}
	return does
}

// lossTally counts what one rule has lost and changed. example is the newest call with a loss, or with a change if there is none.
type lossTally struct {
	lost, changed int
	example       uint64
	to            translate.Direction // of the messages; Both also if it is not known
}

// toward notes that a message to this side was changed.
func (t *lossTally) toward(p *Peers, side Direction) {
	if t.to == translate.Both {
		return
	}
	from, to := translate.Lookup(p.ClientRevision), translate.Lookup(p.ServerRevision)
	if side == ToClient {
		from, to = to, from
	}
	is := translate.Both
	switch {
	case side == 0 || from == nil || to == nil:
	case to.Newer(from):
		is = translate.Up
	case from.Newer(to):
		is = translate.Down
	}
	if t.to != "" && t.to != is {
		is = translate.Both
	}
	t.to = is
}

// maxLosses bounds the kinds of losses that are counted. There are fewer rules.
const maxLosses = 1000
