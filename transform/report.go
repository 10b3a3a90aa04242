package transform

// Call is what an engine has to know of the call that a result answers.
type Call struct {
	Server, Tool string // Tool is the name that the rules know it by
	// Method is tools/call ("" as well), resources/read or prompts/get.
	Method string
	// Session and Caller are whom a handle to the rest belongs to. Session is
	// "" for a client that has none, Caller where clients are not told apart.
	Session, Caller string
	// Schema is the tool's outputSchema as the server lists it, nil for none. It
	// counts when Schemas is Seen.
	Schema  []byte
	Schemas Schemas
	// Narrowing are the tool's parameters by which its caller can ask for less, as
	// [Narrowing] gives them.
	Narrowing string
	// MaxTokens is what the caller asked for, 0 for nothing: it may lower the
	// budget, and never raises it.
	MaxTokens int
	// MoreName is what the client knows the tool as that reads on; "" is
	// [Engine.MoreName].
	MoreName string
	// NoMore says that the client cannot call that tool.
	NoMore bool
	// Full asks for all detail: only the budget applies.
	Full bool
}

// A Name is what rules know a tool by.
type Name struct{ Server, Tool string }

// Schemas says whether the tool's outputSchema is known.
type Schemas int

const (
	Unknown Schemas = iota // the tool may have one that we cannot see: structured content stays
	None                   // the tool has none
	Seen                   // Call.Schema is it
)

// Outcome is what has become of a result.
type Outcome int

const (
	Passed      Outcome = iota // it is as it was
	Transformed                // by a rule
	Capped                     // to its budget, and maybe by a rule before
	Failed                     // a transformer failed; it is as it was, or only capped
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
	// TokensBefore and TokensAfter are what the model would see and sees; 0
	// where it was not counted. TokensBefore of a large result is an estimate:
	// Estimated says so.
	TokensBefore, TokensAfter int
	Estimated                 bool
	Budget                    int
	Steps                     []string // what was done, in order
	Arrays                    []ArrayCut
	StringsCut                int
	Dropped                   []string // names of members that went
	Omitted                   int      // blocks
	Links                     int      // resource links that went
	OverBudget                bool
	Rule                      string // the rule that matched, as rules[2]; "" for none
	// Missed are paths of the rule that match nothing. They are told once for each
	// tool, of the first results that tell of them.
	Missed   []Missed
	Source   string // the source that took it
	Detected bool   // by its shape
	Cursor   string // the handle to the rest, "" for none
	SHA256   string // of the original, "" when it passed
	Err      error  // why a transformer failed
}

// ArrayCut says how much of a list, a map or a text is left.
type ArrayCut struct {
	Path        string
	Kept, Total int
	What        string // items, keys, lines
}
