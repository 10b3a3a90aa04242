package sealed

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
)

// State is what a requestState says, which a client without a session sends back with its answers.
type State struct {
	ID      ID
	Round   uint32
	User    [sha256.Size]byte // stands for the user that may answer
	Digest  [sha256.Size]byte // of the request
	Expires time.Time
}

// stateForm is the first byte of a requestState's plain text; another layout gets
// another number.
const (
	stateForm  = 1
	stateBytes = 1 + 2*len(ID{}) + 4 + 2*sha256.Size + 8
)

// stateUse is the additional text under the seals of states, so that none passes for a session id.
var stateUse = []byte("requestState")

// SealState returns the requestState for st at the process called instance.
func (s *Sealer) SealState(instance ID, st State) string {
	plain := make([]byte, 0, stateBytes)
	plain = append(plain, stateForm)
	plain = append(append(plain, instance[:]...), st.ID[:]...)
	plain = binary.BigEndian.AppendUint32(plain, st.Round)
	plain = append(append(plain, st.User[:]...), st.Digest[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(st.Expires.UnixMilli()))
	return encoding.EncodeToString(s.keys[0].Seal(nil, nil, plain, stateUse))
}

// OpenState returns what a requestState says, and the process that sealed it; false when it was not made by [Sealer.SealState]
// with one of our keys.
func (s *Sealer) OpenState(text string) (st State, instance ID, ok bool) {
	if len(text) > encoding.EncodedLen(stateBytes+s.keys[0].Overhead()) || strings.ContainsAny(text, "\r\n") {
		return State{}, instance, false
	}
	box, err := encoding.DecodeString(text)
	if err != nil {
		return State{}, instance, false
	}
	for _, key := range s.keys {
		plain, err := key.Open(nil, nil, box, stateUse)
		if err != nil || len(plain) != stateBytes || plain[0] != stateForm {
			continue
		}
		plain = plain[1:]
		plain = plain[copy(instance[:], plain):]
		plain = plain[copy(st.ID[:], plain):]
		st.Round, plain = binary.BigEndian.Uint32(plain), plain[4:]
		plain = plain[copy(st.User[:], plain):]
		plain = plain[copy(st.Digest[:], plain):]
		st.Expires = time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))
		return st, instance, true
	}
	return State{}, instance, false
}
