package ended

import (
	"encoding/binary"
	"errors"
	"time"
)

// mark says that one session is over, or all sessions of its process with lower numbers.
type mark struct {
	Serial
	made  time.Time // when the session began, to the second
	below bool
}

// Kinds of an entry in a page.
const (
	otherProcess = 1 << iota // 8 bytes follow
	floorOf                  // all numbers below are over
)

var errDamaged = errors.New("marks of ended sessions are damaged")

// writer appends marks to a text. A mark of the same process as the one before, which began at about the same time,
// takes 3 to 6 bytes.
type writer struct {
	text []byte
	last mark
	any  bool
}

func (w *writer) append(m mark) {
	kind := byte(0)
	if !w.any || m.Process != w.last.Process {
		kind |= otherProcess
	}
	if m.below {
		kind |= floorOf
	}
	w.text = append(w.text, kind)
	if kind&otherProcess != 0 {
		w.text = binary.BigEndian.AppendUint64(w.text, m.Process)
		w.last.Number = 0
	}
	w.text = binary.AppendVarint(w.text, int64(m.Number-w.last.Number))
	w.text = binary.AppendVarint(w.text, m.made.Unix()-w.since())
	w.last, w.any = m, true
}

func (w *writer) since() int64 {
	if !w.any {
		return 0
	}
	return w.last.made.Unix()
}

// readMarks calls do with each mark that a writer has written.
func readMarks(text []byte, do func(mark)) error {
	r := writer{}
	for len(text) > 0 {
		kind := text[0]
		text = text[1:]
		if kind > otherProcess|floorOf || !r.any && kind&otherProcess == 0 {
			return errDamaged
		}
		m := mark{Serial: r.last.Serial, below: kind&floorOf != 0}
		if kind&otherProcess != 0 {
			if len(text) < 8 {
				return errDamaged
			}
			m.Serial = Serial{Process: binary.BigEndian.Uint64(text)}
			text = text[8:]
		}
		number, n := binary.Varint(text)
		if n <= 0 {
			return errDamaged
		}
		made, k := binary.Varint(text[n:])
		if k <= 0 {
			return errDamaged
		}
		text = text[n+k:]
		m.Number += uint64(number)
		m.made = time.Unix(r.since()+made, 0)
		r.last, r.any = m, true
		do(m)
	}
	return nil
}
