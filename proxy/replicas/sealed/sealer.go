// Package sealed writes texts that clients carry for dragoman. Only a replica with the same key can make or read
// them, so that what they hold needs no store.
//
// There are four: session ids ([Session]), the requestState of a call that waits for its client ([State]), ids of questions
// that were put into other words, and requests that one replica forwards to another ([Forward]). Each kind has additional
// authenticated data of its own, so that a text of one kind is not valid as another. The keys are those of session.key_file
// ([ReadKeys]): the first one seals, and each of them opens. The texts belong to the caller.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// Sealer seals and opens: AES-GCM with a random nonce, in base64url. It is safe for concurrent use.
type Sealer struct {
	keys   []cipher.AEAD // the first seals, all open
	Server [sha256.Size]byte
	MaxAge time.Duration
}

// encoding is the encoding of ids. It is strict, so that the same bytes have one text, and a session has one id.
var encoding = base64.RawURLEncoding.Strict()

// New returns the Sealer of sessions with the server that u describes. It takes one key or more of [KeyBytes] each.
func New(keys [][]byte, u config.Upstream, maxAge time.Duration) (*Sealer, error) {
	s := &Sealer{Server: ServerMark(u), MaxAge: maxAge}
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

// ServerMark identifies a server by its address or command.
func ServerMark(u config.Upstream) [sha256.Size]byte {
	where := []string{"url", u.URL}
	if u.URL == "" {
		where = append([]string{"command", u.Dir}, u.Command...)
	}
	return sha256.Sum256([]byte(strings.Join(where, "\x00")))
}

// textReader reads several texts, each of which follows its length.
type textReader struct {
	rest   []byte
	broken bool // next was called more often than there were texts
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// next reads one text, or returns "" if there is none.
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
