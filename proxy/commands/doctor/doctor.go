// Package doctor examines a configuration, this machine and the server, and says of each mistake where it is and what to
// do. It changes nothing, and calls no tool unless it is told to.
//
// A check is a small value in the list that [checks] returns; they run in this order. A check writes lines: what was found,
// where, and what to do. A check that needs another one is skipped if that one has failed. What a check learns and a later
// one needs, such as the connection to the server, is in the exam that all of them share.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// Mark says what a line is.
type Mark string

// The marks.
const (
	OK   Mark = "ok"
	Info Mark = "info" // only shown
	Warn Mark = "warn" // works, but is worth a look
	Fail Mark = "FAIL"
	Skip Mark = "skip" // not checked, because a check that it needs has failed
)

// The exit codes of an examination: that of the first check that has failed.
const (
	ExitFine          = 0
	ExitConfiguration = 2
	ExitServer        = 3
	ExitOurs          = 4
)

// Line is one thing that a check has found.
type Line struct {
	Check string `json:"check"`
	Mark  Mark   `json:"mark"`
	What  string `json:"what"`
	Where string `json:"where,omitempty"` // a file and line, a setting, an address
	Do    string `json:"do,omitempty"`    // what to do about it
}

// Options say what is examined, and with what.
type Options struct {
	Version string         // of this build, for the report
	Program string         // how clients start this program
	Sources config.Sources // of the configuration

	// Probe reports what clients of each revision get of the server; nil for no report.
	Probe func(ctx context.Context, cfg config.Config) (*probe.Report, error)
	// Start returns the error with which serve would refuse a configuration; nil for no such check.
	Start func(cfg config.Config) error
	// Serve serves clients at ln until ctx ends; nil for no comparison.
	Serve func(ctx context.Context, cfg config.Config, ln net.Listener) error

	// Tool is a tool to call, with these arguments, a JSON object; "" calls none.
	Tool, Arguments string

	// Show is called with each line as soon as it is found; may be nil.
	Show func(Line)
	// CheckTime and WholeTime bound one check, and all of them; 0 is 10 s and 60 s.
	CheckTime, WholeTime time.Duration
}

const (
	defaultCheckTime = 10 * time.Second
	defaultWholeTime = time.Minute
)

// Report is the result of an examination.
type Report struct {
	Lines []Line `json:"lines"`
	Exit  int    `json:"exit"`
}

// check is one part of an examination.
type check struct {
	name  string
	needs []string // checks without whose success this one says nothing
	code  int      // exit code if it fails
	// applies reports whether there is anything to check; nil stands for yes.
	applies func(*exam) bool
	run     func(context.Context, *exam)
}

func hasURL(e *exam) bool     { return e.cfg.Upstream.URL != "" }
func hasCommand(e *exam) bool { return len(e.cfg.Upstream.Command) > 0 }
func hasServer(e *exam) bool  { return hasURL(e) || hasCommand(e) }
func hasTool(e *exam) bool    { return e.Tool != "" && hasServer(e) }

// run runs checks in their order.
func (e *exam) run(ctx context.Context, all []check) *Report {
	defer e.close()
	ctx, cancel := context.WithTimeout(ctx, e.WholeTime)
	defer cancel()
	for _, c := range all {
		if c.applies == nil || c.applies(e) {
			e.do(ctx, c)
		}
	}
	return &Report{Lines: e.lines, Exit: e.exit}
}

// do runs one check, or skips it.
func (e *exam) do(ctx context.Context, c check) {
	e.at = c.name
	for _, need := range c.needs {
		if reason := e.bad[need]; reason != "" {
			e.skip(reason)
			return
		}
	}
	if ctx.Err() != nil {
		e.skip(fmt.Sprintf("the %v for all checks are over", e.WholeTime))
		return
	}
	limited, cancel := context.WithTimeout(ctx, e.CheckTime)
	defer cancel()
	before := len(e.lines)
	e.blamed = ExitFine
	c.run(limited, e)
	failed := slices.ContainsFunc(e.lines[before:], func(l Line) bool { return l.Mark == Fail })
	if !failed && limited.Err() != nil {
		e.warn(fmt.Sprintf("not finished within %v", e.CheckTime), "", "")
	}
	if failed {
		e.bad[c.name] = strconv.Quote(c.name) + " failed"
		if e.exit == ExitFine {
			e.exit = cmp.Or(e.blamed, c.code)
		}
	}
}

// skip says that the check, and those that need it, are not carried out, and why.
func (e *exam) skip(reason string) {
	e.bad[e.at] = reason
	e.add(Line{Mark: Skip, What: "not checked, because " + reason})
}

// exam is one examination: what is examined, and what was found.
type exam struct {
	Options
	alone bool // only the configuration is examined
	posts bool // no stream is opened: there are servers of HTTP+SSE that end when their only stream does
	lines []Line
	at    string            // the check that is running
	bad   map[string]string // why checks that need this one are skipped, by its name
	exit  int
	// blamed is the exit code of the check that is running if it fails, where it is not the check's own; ExitFine otherwise.
	blamed int
	why    failures.Cause // of the last failure, where its error does not say it; "" otherwise

	cfg     config.Config
	secrets []string     // that no line may show
	sent    *secret.Kept // what requests have carried, which no line may show either
	world   origin.World // where the server is

	borrowed bool // requests carry the login that a person has stored, and those of serve would not

	conn     *connection   // to the server; nil before a check has opened it
	answer   []byte        // to initialize
	took     time.Duration // until this answer
	session  *session      // nil before the server has accepted one
	found    []probe.List  // the server's lists
	unread   bool          // the lists cannot be read, which is more than that the server refuses one
	relayed  *session      // the session through dragoman; nil if there is none
	finishes []func()      // what ends what the checks have started, last one first
}

func newExam(o Options) *exam {
	o.CheckTime = cmp.Or(o.CheckTime, defaultCheckTime)
	o.WholeTime = cmp.Or(o.WholeTime, defaultWholeTime)
	return &exam{Options: o, bad: map[string]string{}}
}

// atEnd notes what is done at the end of the examination.
func (e *exam) atEnd(do func()) { e.finishes = append(e.finishes, do) }

func (e *exam) close() {
	for _, do := range slices.Backward(e.finishes) {
		do()
	}
	e.finishes = nil
}

func (e *exam) ok(what, where string) { e.add(Line{Mark: OK, What: what, Where: where}) }
func (e *exam) info(what, where, do string) {
	e.add(Line{Mark: Info, What: what, Where: where, Do: do})
}
func (e *exam) warn(what, where, do string) {
	e.add(Line{Mark: Warn, What: what, Where: where, Do: do})
}
func (e *exam) fail(what, where, do string) {
	e.add(Line{Mark: Fail, What: what, Where: where, Do: do})
}

func (e *exam) add(l Line) {
	l.Check = e.at
	do := strings.Split(l.Do, "\n") // an entry of TOML has lines
	for i := range do {
		do[i] = e.safe(do[i])
	}
	l.What, l.Where, l.Do = e.safe(l.What), e.safe(l.Where), strings.Join(do, "\n")
	e.lines = append(e.lines, l)
	if e.Show != nil {
		e.Show(l)
	}
}

// safe returns text without secrets and terminal sequences.
func (e *exam) safe(text string) string {
	return failures.Printable(secret.Strike(text, e.hidden()...))
}

// quote returns a peer's text for a line.
func (e *exam) quote(text string) string { return failures.Quote(text, e.hidden()...) }

// hidden returns the secrets that no line may show.
func (e *exam) hidden() []*secret.Set {
	return []*secret.Set{secret.NewSet(e.secrets...), e.sent.Set()}
}

// first returns the beginning of a peer's answer, in quotes.
func (e *exam) first(body []byte) string {
	const few = 160
	text := e.quote(string(body))
	if len(text) > few {
		text = strings.ToValidUTF8(text[:few], "") + "…"
	}
	return text
}
