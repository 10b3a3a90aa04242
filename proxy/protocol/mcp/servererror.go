package mcp

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// ServerError is the JSON-RPC error with which the server answered one of dragoman's own requests.
type ServerError struct {
	Raw []byte // the error object
	Err error  // the HTTP status that it came with; nil for none
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%.300s", gjson.GetBytes(e.Raw, "message").String())
}

func (e *ServerError) Unwrap() error { return e.Err }

// Failure returns the error for the client whose request made dragoman send its own request. It has
// the server's code, message and data.
func (e *ServerError) Failure() *Failure {
	f := Saying(int(gjson.GetBytes(e.Raw, "code").Int()), e.Error())
	f.Err = e.Err
	if data := gjson.GetBytes(e.Raw, "data"); data.Exists() {
		f.Data = []byte(data.Raw)
	}
	return f
}

// Twice returns the failure of a request whose params have a member twice on which dragoman acts: another reader may take the other one.
func Twice(member string) *Failure {
	f := Fail(Malformed, "")
	f.Text = "Invalid Request: params." + member + " occurs twice"
	return f
}

// Saying returns a failure with this code and text.
func Saying(code int, text string) *Failure {
	f := Fail(Untranslatable, "")
	f.Code, f.Text = code, text
	return f
}
