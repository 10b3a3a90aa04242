package sources

import (
	"go/types"
	"slices"
	"testing"
)

// TestTheseRoomsAskForTheEra: which side has a handshake is asked for where it is found out and where the two eras meet, and where
// it is reported. Other rooms ask a revision for a trait, or one of these rooms.
func TestTheseRoomsAskForTheEra(t *testing.T) {
	rooms := []string{
		"proxy/commands/doctor", // reports it
		"proxy/origin/era",
		"proxy/session/handshake",
		"proxy/commands/probe", // reports it
		"proxy/session",
		"proxy/bridge/stateless",
	}
	var asking []string
	for _, f := range checkedFolders(t) {
		if len(f.eras) == 0 {
			continue
		}
		asking = append(asking, f.name)
		if !slices.Contains(rooms, f.name) {
			t.Errorf("%s asks for the era of a revision: %v", f.name, f.eras)
		}
	}
	for _, room := range rooms {
		if !slices.Contains(asking, room) {
			t.Errorf("%s does not ask for the era any more", room)
		}
	}
}

// isEra reports whether o is what says the era of a translate.Revision.
func isEra(o types.Object) bool {
	switch o := o.(type) {
	case *types.Var:
		return o.IsField() && o.Name() == "Modern"
	case *types.Func:
		return o.Name() == "SameEra"
	}
	return false
}
