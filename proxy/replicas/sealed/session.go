package sealed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// MaxNamed is the greatest length, in bytes, of the session id that the server assigns: ours contains it, and has to fit
// into a header.
const MaxNamed = 2 << 10

// MaxIntroduced is the greatest length, in bytes, of clientInfo in an id, and that of the client's capabilities.
const MaxIntroduced = 512

// MaxCookies is the greatest length of the server's cookies in an id, in bytes: those that balancers set take some hundred.
const MaxCookies = 1 << 10

// ErrNamedTooLong refuses a server's session id that does not fit into ours.
var ErrNamedTooLong = fmt.Errorf("the server's session id is longer than %d bytes", MaxNamed)

// Session is what a session id holds: all that a replica needs to serve the session, if the server keeps the session
// itself.
type Session struct {
	Made                           time.Time // to the second
	ClientRevision, ServerRevision *translate.Revision
	Facts                          wire.Facts
	Local                          bool   // only the process that began the session has it
	Greeted                        bool   // the server has had notifications/initialized before the session was used
	Named                          string // the server's own session id; "" for none
	Owner                          Owner  // the client that the session belongs to
	Serial                         ended.Serial

	// The process that holds what cannot be in an id, if there is such a process; and the client's description, for a
	// server that has no sessions or has lost this one.
	Home         ID
	ClientInfo   string // clientInfo, only name and version if it is long; "" if these are too long
	Capabilities string // clientCapabilities; "" if they are too long

	Cookies string // those that the server has set, at most MaxCookies bytes; "" for none. They are secrets
}

// RoomForCookies returns how long Cookies may be, so that the id is not longer than MaxNamed: the client may be another dragoman.
func (t *Session) RoomForCookies() int {
	const seal = 12 + 16 // nonce and tag of AES-GCM
	others := encoding.EncodedLen(sessionNamed + len(t.Home) + len(t.ClientInfo) + len(t.Capabilities) + len(t.Named) + 3*2 + seal)
	if others > MaxNamed {
		return MaxCookies
	}
	return min(MaxCookies, encoding.DecodedLen(MaxNamed-others))
}

// Introduce stores the client's clientInfo and capabilities, both JSON, in t, as far as they fit.
func (t *Session) Introduce(client, can string) {
	if t.ClientInfo = client; len(client) > MaxIntroduced {
		t.ClientInfo = string(mcp.NameAndVersion([]byte(client), MaxIntroduced))
	}
	if t.Capabilities = can; len(can) > MaxIntroduced {
		t.Capabilities = ""
	}
}

// Offsets in the plain text of an id. The server's session id is the rest.
const (
	sessionForm   = 3 // the first byte; another layout gets another number: 1 and 2 had no owner
	sessionHomed  = 4 // the form with Home, ClientInfo and Capabilities
	sessionKnown  = 5 // that with Cookies, too
	sessionMade   = 1
	sessionClient = sessionMade + 8
	sessionServer = sessionClient + 1
	sessionFacts  = sessionServer + 1
	sessionFlags  = sessionFacts + 2
	sessionBelong = sessionFlags + 1
	sessionMark   = sessionBelong + sha256.Size
	sessionSerial = sessionMark + len(Owner{})
	sessionNamed  = sessionSerial + 8 + 8

	flagLocal   = 1
	flagGreeted = 2
)

// SealSession returns the id of a session, whose Named has at most [MaxNamed] bytes. No two ids are equal.
func (s *Sealer) SealSession(t Session) string {
	plain := make([]byte, sessionNamed, sessionNamed+len(t.Named))
	plain[0] = sessionForm
	binary.BigEndian.PutUint64(plain[sessionMade:], uint64(t.Made.Unix()))
	plain[sessionClient], plain[sessionServer] = t.ClientRevision.Number(), t.ServerRevision.Number()
	binary.BigEndian.PutUint16(plain[sessionFacts:], uint16(t.Facts))
	if t.Local {
		plain[sessionFlags] |= flagLocal
	}
	if t.Greeted {
		plain[sessionFlags] |= flagGreeted
	}
	copy(plain[sessionBelong:], s.Server[:])
	copy(plain[sessionMark:], t.Owner[:])
	binary.BigEndian.PutUint64(plain[sessionSerial:], t.Serial.Process)
	binary.BigEndian.PutUint64(plain[sessionSerial+8:], t.Serial.Number)
	if t.Home != (ID{}) || t.ClientInfo != "" || t.Capabilities != "" || t.Cookies != "" {
		plain[0] = sessionHomed
		plain = append(plain, t.Home[:]...)
		plain = appendText(appendText(plain, t.ClientInfo), t.Capabilities)
	}
	if t.Cookies != "" {
		plain[0] = sessionKnown
		plain = appendText(plain, t.Cookies)
	}
	plain = append(plain, t.Named...)
	return encoding.EncodeToString(s.keys[0].Seal(nil, nil, plain, nil))
}

// OpenSession returns what is in an id; false when no replica with one of our keys made it, or it was made for another server
// or too long ago.
func (s *Sealer) OpenSession(id string, now time.Time) (Session, bool) {
	const least, most = sessionNamed, sessionNamed + len(ID{}) + 2*(MaxIntroduced+2) + MaxCookies + 2 + MaxNamed
	over := s.keys[0].Overhead()
	if n := encoding.DecodedLen(len(id)); n < least+over || n > most+over || strings.ContainsAny(id, "\r\n") {
		return Session{}, false // the decoder would ignore line breaks
	}
	box, err := encoding.DecodeString(id)
	if err != nil {
		return Session{}, false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, box, nil); err == nil {
			return s.read(plain, now)
		}
	}
	return Session{}, false
}

// read decodes what SealSession encodes.
func (s *Sealer) read(plain []byte, now time.Time) (t Session, ok bool) {
	if len(plain) < sessionNamed || !bytes.Equal(plain[sessionBelong:sessionMark], s.Server[:]) {
		return Session{}, false
	}
	t = Session{
		Made:           time.Unix(int64(binary.BigEndian.Uint64(plain[sessionMade:])), 0),
		ClientRevision: translate.Numbered(plain[sessionClient]),
		ServerRevision: translate.Numbered(plain[sessionServer]),
		Facts:          wire.Facts(binary.BigEndian.Uint16(plain[sessionFacts:])),
		Local:          plain[sessionFlags]&flagLocal != 0,
		Greeted:        plain[sessionFlags]&flagGreeted != 0,
	}
	copy(t.Owner[:], plain[sessionMark:])
	t.Serial = ended.Serial{Process: binary.BigEndian.Uint64(plain[sessionSerial:]), Number: binary.BigEndian.Uint64(plain[sessionSerial+8:])}
	rest, ok := plain[sessionNamed:], true
	switch plain[0] {
	case sessionForm:
	case sessionHomed, sessionKnown:
		rest = rest[copy(t.Home[:], rest):]
		said := textReader{rest: rest}
		t.ClientInfo, t.Capabilities = said.next(), said.next()
		if plain[0] == sessionKnown {
			t.Cookies = said.next()
		}
		rest, ok = said.rest, !said.broken
	default:
		return Session{}, false // the form of another version
	}
	t.Named = string(rest)
	return t, ok && t.ClientRevision != nil && t.ServerRevision != nil && !s.Expired(t.Made, now)
}

// Expired reports whether an id that was made at the time made is too old at the time now.
func (s *Sealer) Expired(made, now time.Time) bool { return now.Sub(made) > s.MaxAge }
