package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
)

// state is what a requestState says, which the client of a dialogue sends back with
// its answers. Nobody else can make one up or look into it.
type state struct {
	id      dialogueID
	round   uint32
	who     [sha256.Size]byte // stands for who may answer
	digest  [sha256.Size]byte // of the request
	expires time.Time
}

func (d *dialogue) state(expires time.Time) state {
	return state{d.id, d.round, sha256.Sum256([]byte(d.first.user)), d.digest, expires}
}

// stateForm is the first byte of a requestState's plain text; another layout gets
// another number.
const (
	stateForm  = 1
	stateBytes = 1 + 2*len(dialogueID{}) + 4 + 2*sha256.Size + 8
)

// stateUse keeps states and session ids apart, which are sealed with one key.
var stateUse = []byte("requestState")

// sealState returns the requestState for st at the process called instance.
func (s *sealer) sealState(instance dialogueID, st state) string {
	plain := make([]byte, 0, stateBytes)
	plain = append(plain, stateForm)
	plain = append(append(plain, instance[:]...), st.id[:]...)
	plain = binary.BigEndian.AppendUint32(plain, st.round)
	plain = append(append(plain, st.who[:]...), st.digest[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(st.expires.UnixMilli()))
	return sealed.EncodeToString(s.keys[0].Seal(nil, nil, plain, stateUse))
}

// openState returns what a requestState says; false when it was not made by
// sealState with one of our keys.
func (s *sealer) openState(text string) (st state, instance dialogueID, ok bool) {
	if len(text) > sealed.EncodedLen(stateBytes+s.keys[0].Overhead()) || strings.ContainsAny(text, "\r\n") {
		return state{}, instance, false
	}
	box, err := sealed.DecodeString(text)
	if err != nil {
		return state{}, instance, false
	}
	for _, key := range s.keys {
		plain, err := key.Open(nil, nil, box, stateUse)
		if err != nil || len(plain) != stateBytes || plain[0] != stateForm {
			continue
		}
		plain = plain[1:]
		plain = plain[copy(instance[:], plain):]
		plain = plain[copy(st.id[:], plain):]
		st.round, plain = binary.BigEndian.Uint32(plain), plain[4:]
		plain = plain[copy(st.who[:], plain):]
		plain = plain[copy(st.digest[:], plain):]
		st.expires = time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))
		return st, instance, true
	}
	return state{}, instance, false
}
