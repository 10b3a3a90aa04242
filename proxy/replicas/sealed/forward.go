package sealed

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// A request that only one replica can serve, because that replica holds its session or its call, is
// forwarded to it by the replica that the client reached. The request goes as it came, with one
// header around it. The header is sealed with the key that all replicas have. It says for which
// process the request is, when it was made, what the digest of the body is, and which headers the
// client sent. The seal authenticates the request, and it hides the client's headers, such as a
// token, from third parties. A forwarded request is served where it arrives or not at all.

// ForwardHeader is the name of the header that holds the sealed text of a request that one replica
// forwards to another.
const ForwardHeader = "Dragoman-Forward"

// Forward is the content of the sealed text in [ForwardHeader].
type Forward struct {
	To     ID // the process
	At     time.Time
	Digest [sha256.Size]byte // of the body

	Method                               string // of the client's request
	Session, Version, LastEventID, Guest string
	Header                               []mcp.Header
}

// The use of each seal, so that a seal for a POST is not valid for a GET.
const (
	forwardUse  = "forward " // followed by the method and the path
	forwardForm = 1
)

// ForwardWindow is how far the clocks of two replicas may be apart, together with
// the time that a request takes on its way.
const ForwardWindow = 30 * time.Second

// SealForward seals f for a request of this method.
func (s *Sealer) SealForward(method string, f Forward) string {
	plain := append([]byte{forwardForm}, f.To[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(f.At.UnixMilli()))
	plain = append(plain, f.Digest[:]...)
	for _, text := range []string{f.Method, f.Session, f.Version, f.LastEventID, f.Guest} {
		plain = appendText(plain, text)
	}
	for _, h := range f.Header {
		plain = appendText(appendText(plain, h.Name), h.Value)
	}
	return encoding.EncodeToString(s.keys[0].Seal(nil, nil, plain, []byte(forwardUse+method+" "+config.ReplicasPath)))
}

// OpenForward returns the content of box, which [Sealer.SealForward] made for a request of this method.
// ok is false if no replica with one of our keys made it.
func (s *Sealer) OpenForward(method, box string) (f Forward, ok bool) {
	text, err := encoding.DecodeString(box)
	if err != nil || strings.ContainsAny(box, "\r\n") {
		return Forward{}, false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, text, []byte(forwardUse+method+" "+config.ReplicasPath)); err == nil {
			return readForward(plain)
		}
	}
	return Forward{}, false
}

func readForward(plain []byte) (f Forward, ok bool) {
	if len(plain) < 1+len(f.To)+8+len(f.Digest) || plain[0] != forwardForm {
		return Forward{}, false
	}
	plain = plain[1:]
	plain = plain[copy(f.To[:], plain):]
	f.At, plain = time.UnixMilli(int64(binary.BigEndian.Uint64(plain))), plain[8:]
	plain = plain[copy(f.Digest[:], plain):]
	said := textReader{rest: plain}
	for _, at := range []*string{&f.Method, &f.Session, &f.Version, &f.LastEventID, &f.Guest} {
		*at = said.next()
	}
	for len(said.rest) > 0 {
		f.Header = append(f.Header, mcp.Header{Name: said.next(), Value: said.next()})
	}
	return f, !said.broken
}
