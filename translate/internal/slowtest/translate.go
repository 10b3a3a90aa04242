package slowtest

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Translate translates m from the revision named from to the revision named to. It returns an
// error if the message cannot be translated.
func Translate(from, to string, o Options, m Message) (Translation, error) {
	j := &job{
		Options: o,
		Message: m,
		from:    slices.Index(revisions[:], from),
		to:      slices.Index(revisions[:], to),
	}
	if j.from < 0 || j.to < 0 {
		return Translation{}, fmt.Errorf("no translation from %q to %q", from, to)
	}
	var err error
	if from != to {
		switch m.Kind {
		case wire.Request:
			err = j.request()
		case wire.Notification:
			j.notification()
		case wire.Result:
			err = j.result()
		case wire.Error:
			j.failure()
		}
	}
	if err != nil {
		return Translation{}, err
	}
	return Translation{Text: j.Text, Verdict: j.verdict, Note: j.made}, nil
}
