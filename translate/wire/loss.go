package wire

import "strconv"

// Level is how loudly a loss is reported.
type Level uint8

// The levels of the logging contract: what held nothing is Info, what held
// something is Warn; what belongs to the protocol's own envelope is Debug.
const (
	Debug Level = iota
	Info
	Warn
)

// String is the level in capitals.
func (l Level) String() string { return [...]string{"DEBUG", "INFO", "WARN"}[l] }

// Loss is what one rule took from one message, or changed in it.
type Loss struct {
	Rule    string // the rule's number: "C01"
	What    string // the member or thing: "title"
	Level   Level  // the loudest of all its places
	Count   int    // in how many places
	Standin bool   // a stand-in keeps the meaning
	Path    Path   // the first place
}

const maxPath = 10

// Path leads from a message to one value in it. It owns its memory and stays
// valid when the message is gone.
type Path struct {
	n    uint8
	step [maxPath]pathStep
}

type pathStep struct {
	name  Name
	elem  bool
	index uint32
}

// String reads "result.tools[0].title". A member whose name no rule knows
// reads "*".
func (p Path) String() string { return string(p.Append(nil)) }

// Append writes the path behind dst.
func (p Path) Append(dst []byte) []byte {
	for i, s := range p.step[:p.n] {
		switch {
		case s.elem:
			dst = append(dst, '[')
			dst = strconv.AppendUint(dst, uint64(s.index), 10)
			dst = append(dst, ']')
			continue
		case i > 0:
			dst = append(dst, '.')
		}
		dst = append(dst, s.name.String()...)
	}
	return dst
}
