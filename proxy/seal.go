package proxy

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ended"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// keyBytes is the length of a key that session ids are sealed with.
const keyBytes = 32

// maxNamed is how long an id may be that a server gives a session: what is made
// of it has to fit into a header of the client's.
const maxNamed = 2 << 10

// maxIntroduced is how long clientInfo, and clientCapabilities, may be in an id.
const maxIntroduced = 512

var errNamedTooLong = fmt.Errorf("the server's session id is longer than %d bytes", maxNamed)

// ticket is what a session id holds: all that a process needs to know of a
// session in front of a server that knows it by itself.
type ticket struct {
	made   time.Time // to the second
	vc, vu *translate.Revision
	facts  wire.Facts
	local  bool      // the session lives in the process that began it, and nowhere else
	named  string    // the server's own id of it, "" for none
	mark   ownerMark // of its owner
	serial ended.Serial

	// The process that has what cannot be in an id, where that is so; and who the client
	// is, for a server that knows no sessions or has lost this one.
	home   dialogueID
	client string // clientInfo, "" where it is too long
	can    string // clientCapabilities, "" where it is too long
}

// sealer makes session ids, which nobody can make up or look into, and opens
// them: AES-GCM around a ticket, in base64url. It is safe for concurrent use.
type sealer struct {
	keys   []cipher.AEAD // the first seals, all open
	belong [sha256.Size]byte
	maxAge time.Duration
}

// Where things are in the plain text of an id. The server's id is the rest.
const (
	ticketForm   = 3 // the first byte; another layout gets another number: 1 and 2 had no owner
	homedForm    = 4 // of a session that has a home, or says who its client is
	ticketMade   = 1
	ticketVc     = ticketMade + 8
	ticketVu     = ticketVc + 1
	ticketFacts  = ticketVu + 1
	ticketFlags  = ticketFacts + 2
	ticketBelong = ticketFlags + 1
	ticketMark   = ticketBelong + sha256.Size
	ticketSerial = ticketMark + len(ownerMark{})
	ticketNamed  = ticketSerial + 8 + 8

	flagLocal = 1
)

// sealed is the encoding of ids. It has one text for the same bytes, so that a
// session has one id.
var sealed = base64.RawURLEncoding.Strict()

// newSealer is the sealer of sessions with the server that u describes. keys
// are of keyBytes each, and there is at least one.
func newSealer(keys [][]byte, u config.Upstream, maxAge time.Duration) (*sealer, error) {
	s := &sealer{belong: belonging(u), maxAge: maxAge}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// belonging tells servers apart by where they are.
func belonging(u config.Upstream) [sha256.Size]byte {
	where := []string{"url", u.URL}
	if u.URL == "" {
		where = append([]string{"command", u.Dir}, u.Command...)
	}
	return sha256.Sum256([]byte(strings.Join(where, "\x00")))
}

// seal returns the id of a session, whose named is of maxNamed bytes at most. No
// two are the same.
func (s *sealer) seal(t ticket) string {
	plain := make([]byte, ticketNamed, ticketNamed+len(t.named))
	plain[0] = ticketForm
	binary.BigEndian.PutUint64(plain[ticketMade:], uint64(t.made.Unix()))
	plain[ticketVc], plain[ticketVu] = t.vc.Number(), t.vu.Number()
	binary.BigEndian.PutUint16(plain[ticketFacts:], uint16(t.facts))
	if t.local {
		plain[ticketFlags] |= flagLocal
	}
	copy(plain[ticketBelong:], s.belong[:])
	copy(plain[ticketMark:], t.mark[:])
	binary.BigEndian.PutUint64(plain[ticketSerial:], t.serial.Process)
	binary.BigEndian.PutUint64(plain[ticketSerial+8:], t.serial.Number)
	if t.home != (dialogueID{}) || t.client != "" || t.can != "" {
		plain[0] = homedForm
		plain = append(plain, t.home[:]...)
		plain = appendText(appendText(plain, t.client), t.can)
	}
	plain = append(plain, t.named...)
	return sealed.EncodeToString(s.keys[0].Seal(nil, nil, plain, nil))
}

// open returns what is in an id; false when it was not made here or by a process
// with the same key, or for another server, or too long ago.
func (s *sealer) open(id string, now time.Time) (ticket, bool) {
	const least, most = ticketNamed, ticketNamed + len(dialogueID{}) + 2*(maxIntroduced+2) + maxNamed
	over := s.keys[0].Overhead()
	if n := sealed.DecodedLen(len(id)); n < least+over || n > most+over || strings.ContainsAny(id, "\r\n") {
		return ticket{}, false // the decoder would pass over line breaks
	}
	box, err := sealed.DecodeString(id)
	if err != nil {
		return ticket{}, false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, box, nil); err == nil {
			return s.read(plain, now)
		}
	}
	return ticket{}, false
}

// read takes apart what seal has put together.
func (s *sealer) read(plain []byte, now time.Time) (t ticket, ok bool) {
	if len(plain) < ticketNamed || !bytes.Equal(plain[ticketBelong:ticketMark], s.belong[:]) {
		return ticket{}, false
	}
	t = ticket{
		made:  time.Unix(int64(binary.BigEndian.Uint64(plain[ticketMade:])), 0),
		vc:    translate.Numbered(plain[ticketVc]),
		vu:    translate.Numbered(plain[ticketVu]),
		facts: wire.Facts(binary.BigEndian.Uint16(plain[ticketFacts:])),
		local: plain[ticketFlags]&flagLocal != 0,
	}
	copy(t.mark[:], plain[ticketMark:])
	t.serial = ended.Serial{Process: binary.BigEndian.Uint64(plain[ticketSerial:]), Number: binary.BigEndian.Uint64(plain[ticketSerial+8:])}
	rest, ok := plain[ticketNamed:], true
	switch plain[0] {
	case ticketForm:
	case homedForm:
		rest = rest[copy(t.home[:], rest):]
		said := textReader{rest: rest}
		t.client, t.can = said.next(), said.next()
		rest, ok = said.rest, !said.broken
	default:
		return ticket{}, false // of another version
	}
	t.named = string(rest)
	return t, ok && t.vc != nil && t.vu != nil && !s.expired(t.made, now)
}

// expired reports whether an id made then is too old.
func (s *sealer) expired(made, now time.Time) bool { return now.Sub(made) > s.maxAge }

// sessionKeys are the keys in file; without a file, one that nobody else has.
func sessionKeys(file string) ([][]byte, error) {
	if file == "" {
		key := make([]byte, keyBytes)
		rand.Read(key) // never fails
		return [][]byte{key}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("session.key_file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, fmt.Errorf("session.key_file: %w", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("session.key_file %s: %w", file, err)
	}
	return keys, nil
}

// parseKeys reads one or two lines of a key each. Its errors do not repeat them.
func parseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		key := parseKey(strings.TrimSpace(line))
		switch {
		case key == nil:
			return nil, fmt.Errorf("line %d: not %d bytes in base64 or hex", i+1, keyBytes)
		case len(keys) == 2:
			return nil, errors.New("more than two keys")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// parseKey is the key in text, nil when it holds none. The lengths of the
// encodings tell them apart.
func parseKey(text string) []byte {
	var key []byte
	var err error
	switch len(text) {
	case hex.EncodedLen(keyBytes):
		key, err = hex.DecodeString(text)
	case base64.StdEncoding.EncodedLen(keyBytes):
		key, err = base64.StdEncoding.DecodeString(text)
		if err != nil {
			key, err = base64.URLEncoding.DecodeString(text)
		}
	case base64.RawStdEncoding.EncodedLen(keyBytes):
		key, err = base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			key, err = base64.RawURLEncoding.DecodeString(text)
		}
	}
	if err != nil || len(key) != keyBytes {
		return nil
	}
	return key
}

// textReader takes several texts apart, each behind its length.
type textReader struct {
	rest   []byte
	broken bool // there were not as many as next was called
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// next takes one text, "" where there is none.
func (t *textReader) next() string {
	n, width := binary.Uvarint(t.rest)
	if width <= 0 || n > uint64(len(t.rest)-width) {
		t.broken, t.rest = true, nil
		return ""
	}
	text := string(t.rest[width:][:n])
	t.rest = t.rest[width+int(n):]
	return text
}
