package transform

// Call describes the call that a result answers.
type Call struct {
	Server, Tool string // Tool is the name by which rules know the tool
	// Method is tools/call ("" as well), resources/read or prompts/get.
	Method string
	// Session and Caller own the handle to the rest. Session is "" for a client
	// that has none; Caller is "" if clients are not told apart.
	Session, Caller string
	// Schema is the tool's outputSchema as the server lists it, or nil if it
	// has none. It counts only if Schemas is Seen.
	Schema  []byte
	Schemas Schemas
	// Narrowing are the tool's parameters by which its caller can ask for less, as
	// [Narrowing] gives them.
	Narrowing string
	// MaxTokens is the budget that the caller asked for, or 0 if it asked for
	// none. It may lower the budget, and never raises it.
	MaxTokens int
	// MoreName is the client's name of the tool that reads on; "" means
	// [Engine.MoreName].
	MoreName string
	// NoMore says that the client cannot call that tool.
	NoMore bool
	// Full asks for all detail: only the budget applies.
	Full bool
	// Settled says that the rule was applied to a value in the result, by [Engine.Data], and that clients have the tool's
	// outputSchema as it is.
	Settled bool
	// Around is what stands around the value of [Engine.Data] in the complete result, which is a JSON text; nil if
	// the value is all of it.
	Around *Around
}

// Around has the tokens of a complete result beside those of a value in it.
type Around struct {
	Whole int // if the value is whole
	Cut   int // if it was cut, without the notice
}

// A Name is the name by which rules know a tool.
type Name struct{ Server, Tool string }

// Schemas says whether the tool's outputSchema is known.
type Schemas int

const (
	Unknown Schemas = iota // the tool may have one that is not known: structured content stays
	None                   // the tool has none
	Seen                   // the outputSchema is Call.Schema
)

// Outcome says what was done with a result.
type Outcome int

const (
	Passed      Outcome = iota // nothing: the result is as it was
	Transformed                // a rule changed the result
	Capped                     // the result was cut to its budget, and perhaps a rule changed it before
	Failed                     // a transformer failed; the result is as it was, or only cut to its budget
)

func (o Outcome) String() string {
	return [...]string{"passthrough", "transformed", "capped", "error"}[o]
}

// Report says what was done with a result, for the log and the metrics. It holds
// nothing of the result's text.
type Report struct {
	Outcome Outcome
	// BytesBefore and BytesAfter are of the result's JSON.
	BytesBefore, BytesAfter int
	// TokensBefore and TokensAfter are the tokens of the original and of the
	// result that the model sees; 0 if they were not counted. If TokensBefore
	// is an estimate, as for a large result, Estimated is true.
	TokensBefore, TokensAfter int
	Estimated                 bool
	Budget                    int
	Steps                     []string // what was done, in order
	Arrays                    []ArrayCut
	StringsCut                int
	Dropped                   []string // names of members that were left out
	Omitted                   int      // blocks that were left out
	Links                     int      // resource links that were left out
	OverBudget                bool
	Rule                      string // the rule that matched, as rules[2]; "" for none
	// Missed are paths of the rule that match nothing. They are reported once
	// for each tool, with the first result that shows them.
	Missed   []Missed
	Source   string // the source that was applied
	Detected bool   // the source recognized the result by its shape
	Cursor   string // the handle to the rest, or "" if there is none
	SHA256   string // of the original, or "" if nothing was changed
	Err      error  // why a transformer failed
}

// ArrayCut says how much of a list, a map or a text is left.
type ArrayCut struct {
	Path        string
	Kept, Total int
	What        string // items, keys, lines
}

// Missed is a path of a rule that matches nothing in a result.
type Missed struct {
	Setting string   // of the rule: include_fields, exclude_fields or truncate
	Path    string   // as far as it counts
	Step    string   // the step of Path that is missing
	Names   []string // the names of members that exist, one of which may be meant
}
