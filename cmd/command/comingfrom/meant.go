package comingfrom

import (
	"slices"
	"strings"
)

// Meant says whose flag an unknown one of a command of dragoman is, and what to write in its place; "" if no tool has it.
func Meant(flag, command string) string {
	var whose, as []string
	do := ""
	for _, name := range Names() {
		t, err := Load(name)
		if err != nil {
			continue
		}
		for _, r := range t.Rows {
			if r.Kind != "flag" || r.Theirs != flag && !slices.Contains(r.Also, flag) || r.Only != "" && r.Only != command {
				continue
			}
			switch {
			case do != "":
			case r.Answer == Refused:
				do = r.Note
			case r.Answer == Ignored:
				do = "leave it out: " + r.Note
			case strings.HasPrefix(r.Ours, "leave it out"):
				do = r.Ours
			default:
				do = "write " + r.Ours
			}
			whose = append(whose, t.Title+"'s")
			if r.Answer != Refused && wholes[name] != nil {
				as = append(as, " or dragoman as "+name+" …")
			}
			break
		}
	}
	if do == "" {
		return ""
	}
	const most = 2
	do = "it is " + strings.Join(whose[:min(most, len(whose))], " and ") + ": " + do
	if len(as) > 0 {
		do += ";" + strings.Join(as[:min(most, len(as))], "")
	}
	return do
}
