// Package crossing has what is common to the two ways of connecting a client of one era with a server of the other.
// Each way is a package, named for the client:
//
//	handshake client ──► legacyclient ──► modern server
//	                     keeps the session's state for the server, and makes the questions
//	                     in an input_required result requests to the client
//
//	modern client ──► modernclient ──► sessions of dragoman with the handshake server
//	                  makes the server's questions an input_required result, and parks the call until the client
//	                  calls again with the answers
//
// [Crossing] is what modernclient and the exchange of a message share.
package crossing

import (
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

const (
	// MaxQuestions is the greatest number of questions in one round, and of unanswered questions in one call.
	MaxQuestions = 64
	// MaxQuiet is how long a subscription may be silent before it is renewed.
	MaxQuiet = 24 * time.Hour
	// MaxAskedAgain is the greatest size, in bytes, of a question that is kept in order to be asked again.
	MaxAskedAgain = 64 << 10
)

// Rephrase returns a copy of a question with another id, and with a text that says why it is asked again.
func Rephrase(question, id []byte) ([]byte, error) {
	out, err := sjson.SetRawBytes(question, "id", id)
	if err != nil {
		return nil, err
	}
	text := "Please answer again: the number of choices was not the one asked for.\n\n" + gjson.GetBytes(out, "params.message").String()
	return sjson.SetRawBytes(out, "params.message", wire.AppendQuoted(nil, text))
}
