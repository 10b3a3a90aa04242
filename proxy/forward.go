package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// A request that only one replica can serve, since that holds what it is about, is
// forwarded there by the one that the client came to. It goes as it came, with one
// header around it, sealed with the key that all have: for which process it is, when
// it was made, what the body is, and what the client sent along. The seal is the
// authentication; and what the client sent along, its token for one, is read by
// nobody on the way. A forwarded request is served where it arrives or not at all.

// forwardHeader holds the seal. It fits where the header of a client's request fits.
const forwardHeader = "Dragoman-Forward"

// forward is what a seal says.
type forward struct {
	to     dialogueID // the process
	at     time.Time
	digest [sha256.Size]byte // of the body

	method                               string // of the client's request; "" asks whether the process is there
	session, version, lastEventID, guest string
	header                               []upstream.Header
}

// How a seal is used. Those of a POST and of a GET are not one for the other.
const (
	forwardUse  = "forward " // followed by the method and the path
	presenceUse = "presence"
	forwardForm = 1
)

// forwardWindow is how far the clocks of two replicas may be apart, together with
// the time that a request takes on its way.
const forwardWindow = 30 * time.Second

func (s *sealer) sealForward(method string, f forward) string {
	plain := append([]byte{forwardForm}, f.to[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(f.at.UnixMilli()))
	plain = append(plain, f.digest[:]...)
	for _, text := range []string{f.method, f.session, f.version, f.lastEventID, f.guest} {
		plain = appendText(plain, text)
	}
	for _, h := range f.header {
		plain = appendText(appendText(plain, h.Name), h.Value)
	}
	return sealed.EncodeToString(s.keys[0].Seal(nil, nil, plain, []byte(forwardUse+method+" "+config.ReplicasPath)))
}

// openForward is what a seal says; false when nobody with one of our keys has made it.
func (s *sealer) openForward(method, box string) (f forward, ok bool) {
	text, err := sealed.DecodeString(box)
	if err != nil || strings.ContainsAny(box, "\r\n") {
		return forward{}, false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, text, []byte(forwardUse+method+" "+config.ReplicasPath)); err == nil {
			return readForward(plain)
		}
	}
	return forward{}, false
}

func readForward(plain []byte) (f forward, ok bool) {
	if len(plain) < 1+len(f.to)+8+len(f.digest) || plain[0] != forwardForm {
		return forward{}, false
	}
	plain = plain[1:]
	plain = plain[copy(f.to[:], plain):]
	f.at, plain = time.UnixMilli(int64(binary.BigEndian.Uint64(plain))), plain[8:]
	plain = plain[copy(f.digest[:], plain):]
	said := textReader{rest: plain}
	for _, at := range []*string{&f.method, &f.session, &f.version, &f.lastEventID, &f.guest} {
		*at = said.next()
	}
	for len(said.rest) > 0 {
		f.header = append(f.header, upstream.Header{Name: said.next(), Value: said.next()})
	}
	return f, !said.broken
}

// presence is the answer of the process that a seal asks for.
func (s *sealer) presence(box string) string {
	sum := sha256.Sum256([]byte(box))
	return sealed.EncodeToString(s.keys[0].Seal(nil, nil, sum[:], []byte(presenceUse)))
}

func (s *sealer) isPresence(answer, box string) bool {
	text, err := sealed.DecodeString(answer)
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(box))
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, text, []byte(presenceUse)); err == nil {
			return bytes.Equal(plain, sum[:])
		}
	}
	return false
}
