package doctor

import "strings"

// thereIs begins what to do where an endpoint was found at another path.
const thereIs = "there is an endpoint at "

// NorAt stands before the other paths at which no endpoint was found.
const NorAt = "; nor is there one at "

// NamesEndpoint reports whether l says which other path of the server has an endpoint.
func (l Line) NamesEndpoint() bool { return strings.HasPrefix(l.Do, thereIs) }

// FoundError is an error of the server at a URL, with what [Explain] has found out about it.
type FoundError struct {
	Found Line
	Err   error
}

// Error returns what was found and what to do, and where, unless what to do names the place too.
func (e *FoundError) Error() string {
	text := e.Found.What
	if !strings.Contains(e.Found.Do, e.Found.Where) {
		text = e.Found.Where + ": " + text
	}
	if e.Found.Do != "" {
		text += "; " + e.Found.Do
	}
	return text
}

func (e *FoundError) Unwrap() error { return e.Err }
