package mcp

import (
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// MaxSelf bounds what is kept of what a client says of itself, in bytes: its clientInfo, and its capabilities.
const MaxSelf = 16 << 10

// Self is what a client says of itself; nil for what it does not say.
type Self struct{ Client, Capabilities []byte }

// Fit leaves out the icons of a clientInfo that has more than [MaxSelf] bytes, and returns the loss. The error is a [*Failure] of
// this cause: a part has more than that without them. It calls the parts by the names in called.
func (s *Self) Fit(cause Cause, called [2]string) (losses []wire.Loss, err error) {
	if len(s.Client) > MaxSelf && gjson.GetBytes(s.Client, "icons").Exists() {
		if rest, err := sjson.DeleteBytes(s.Client, "icons"); err == nil {
			s.Client = rest
			losses = []wire.Loss{{Rule: "C05", What: "icons", Level: wire.Warn, Count: 1, Lost: 1}}
		}
	}
	for i, part := range [...][]byte{s.Client, s.Capabilities} {
		if len(part) > MaxSelf {
			f := Fail(cause, "")
			f.Text = fmt.Sprintf("%s has %d bytes: at this server a client may say at most %d of itself", called[i], len(part), MaxSelf)
			return nil, f
		}
	}
	return losses, nil
}

// Shorten makes s fit where too much of it cannot be refused: without icons, then with only the name and the version of the client,
// and with those capabilities that dragoman knows. It reports whether it has left anything out.
func (s *Self) Shorten() (cut bool) {
	if losses, err := s.Fit(InitializeBroken, [2]string{}); err == nil {
		return losses != nil
	}
	if len(s.Client) > MaxSelf {
		s.Client = NameAndVersion(s.Client, MaxSelf)
	}
	if len(s.Capabilities) > MaxSelf {
		s.Capabilities = CapabilitiesOf(ClientFacts(gjson.ParseBytes(s.Capabilities)))
	}
	return true
}

// NameAndVersion returns a clientInfo with only what every clientInfo has, or nil if that is invalid or has more than most bytes.
func NameAndVersion(client []byte, most int) []byte {
	said := gjson.GetManyBytes(client, "name", "version")
	out := []byte(`{"name":` + said[0].Raw + `,"version":` + said[1].Raw + `}`)
	if len(out) > most || !gjson.ValidBytes(out) {
		return nil
	}
	return out
}
