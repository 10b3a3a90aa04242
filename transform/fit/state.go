package fit

import "github.com/dragoman-proxy/dragoman/translate/wire"

// stateMembers are the names, in small letters and without _ and -, of members that say how a thing is.
var stateMembers = set("status state phase conclusion severity level result outcome health reason exitcode exitstatus ready lifecyclestate laststate statusreason resourcestatus containerstatuses initcontainerstatuses conditions waiting terminated")

// saysMembers are the names of members that say what happened, holdsMembers those of objects with what a thing is.
var (
	saysMembers  = set("message msg detail lasterror errormessage failurereason")
	holdsMembers = set("properties fields attributes node metadata")
)

// longMessage is how many bytes of a message are looked at: a longer one is a text.
const longMessage = 400

// failed reports whether an item says that something went wrong. It notes the members that say so.
func (d *doc) failed(at uint32, depth int) bool {
	for m := at + 1; m < d.Nodes[at].Next; m = d.Nodes[m].Next {
		if d.tells(m, depth) {
			if len(d.telling) < maxSeen {
				if d.telling == nil {
					d.telling = make(map[uint32]bool)
				}
				d.telling[m] = true
			}
			return true
		}
	}
	return false
}

// tells reports whether a member of an item, or an element in it, says that something went wrong.
func (d *doc) tells(m uint32, depth int) bool {
	value, name := d.Raw(m), d.Name(m)
	switch string(name) {
	case "error", "errors", "exception", "isError", "is_error":
		return !wire.Hollow(value) && string(value) != "false" && string(value) != "0"
	}
	plain := string(plainName(name))
	inner := value[0] == '{' || value[0] == '['
	switch {
	case saysMembers[plain] && value[0] == '"' && len(value) <= longMessage:
		_, g := look(d.src[d.Nodes[m].Pos:d.Nodes[m].End])
		return g >= wrong
	case holdsMembers[plain] && value[0] == '{', inner && (name == nil || stateMembers[plain]):
		return depth < maxStates && d.failed(m, depth+1)
	case inner || name == nil || len(value) > longCell || !stateMembers[plain] && (depth == 0 || plain != "name" && plain != "value"):
		return false
	}
	_, g := look(d.src[d.Nodes[m].Key:d.Nodes[m].End])
	return g >= wrong
}

// maxStates is how deep states are looked for.
const maxStates = 5

// plainName returns a name in small letters, without _ and -.
func plainName(name []byte) []byte {
	var room [32]byte
	plain := room[:0]
	for _, c := range name[:min(len(name), len(room))] {
		if c != '_' && c != '-' {
			plain = append(plain, c|0x20)
		}
	}
	return plain
}
