package sealed

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// QuestionPrefix begins the id of a question whose note is sealed in it, as JSON.
const QuestionPrefix = `"dragoman:`

// carries is the additional text under these seals, so that none passes for that of a session.
var carries = []byte("question")

// SealQuestion returns an id for a question, as JSON, that holds the id that the server gave it and a note for its answer.
func (s *Sealer) SealQuestion(id, note []byte) []byte {
	plain := binary.AppendUvarint(s.Server[:len(s.Server):len(s.Server)], uint64(len(note)))
	plain = slices.Concat(plain, note, id)
	out := encoding.AppendEncode([]byte(QuestionPrefix), s.keys[0].Seal(nil, nil, plain, carries))
	return append(out, '"')
}

// OpenQuestion returns what [Sealer.SealQuestion] was given; false where no replica with one of our keys made it for the same
// server.
func (s *Sealer) OpenQuestion(made []byte) (id, note []byte, ok bool) {
	text, ok := bytes.CutPrefix(made, []byte(QuestionPrefix))
	box, err := encoding.AppendDecode(nil, bytes.TrimSuffix(text, []byte(`"`)))
	if !ok || err != nil {
		return nil, nil, false
	}
	for _, key := range s.keys {
		plain, err := key.Open(nil, nil, box, carries)
		if err != nil {
			continue
		}
		plain, ok = bytes.CutPrefix(plain, s.Server[:])
		n, width := binary.Uvarint(plain)
		if !ok || width <= 0 || n > uint64(len(plain)-width) {
			return nil, nil, false
		}
		plain = plain[width:]
		return plain[n:], plain[:n], true
	}
	return nil, nil, false
}
