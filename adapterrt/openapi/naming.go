package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/brief"
)

// A model chooses an operation by its name. So a name keeps its verb and what tells it from others, and no two names differ
// by a number that only counts.

// verbs are the words with which names begin by method. A name that begins with one of them does not need its method.
var verbs = map[string][]string{
	"GET":    {"get", "list", "find", "search", "read", "fetch", "show", "query", "retrieve", "count", "check", "download", "export", "view", "lookup", "describe", "watch"},
	"DELETE": {"delete", "remove", "destroy", "clear", "purge", "revoke", "unset", "erase", "drop", "cancel"},
	"PUT":    {"put", "update", "replace", "set", "modify", "edit", "change", "save", "upsert", "enable", "disable"},
	"PATCH":  {"patch", "update", "modify", "edit", "change"},
	"POST":   append([]string{"post", "create", "add", "insert", "new", "register", "upload", "set", "save", "upsert", "make", "search", "query", "find"}, actions...),
}

// nameAll gives the operations of a file their names. A name loses the tag that all of them
// have in front, if two words are left and no other operation has that name.
func nameAll(ops []*operation, tag string) {
	count := map[string]int{}
	untagged := func(op *operation) string {
		rest, ok := strings.CutPrefix(op.name, snake(tag)+"_")
		if tag == "" || !ok || op.raw.advice.operationName() != "" || !strings.Contains(rest, "_") || rest[0] < 'a' || rest[0] > 'z' {
			return op.name
		}
		return rest
	}
	for _, op := range ops {
		count[untagged(op)]++
	}
	for _, op := range ops {
		if b := untagged(op); count[b] == 1 {
			op.name = b
		}
	}
	tellApart(ops)
	known := tellingWords(ops)
	taken := map[string]bool{}
	for _, op := range ops {
		if len(op.name) <= maxOperationName {
			taken[op.name] = true
		}
	}
	given := map[string]bool{}
	for _, op := range ops {
		if len(op.name) > maxOperationName {
			name, dropped := brief.Name(op.name, maxOperationName, known)
			what := "its name was longer than 64 characters: words are abbreviated"
			if dropped {
				what = "its name was longer than 64 characters: words are abbreviated or left out"
			}
			op.findings = append(op.findings, Finding{Class: Guessed, What: what, Do: "rename it, if you like"})
			op.name = name
			if taken[name] {
				op.name = op.otherName(taken)
			}
			taken[op.name] = true
		}
		name := operationName(given, op.name)
		if name != op.name {
			op.findings = append(op.findings, Finding{Class: Guessed, What: "another operation had the same name: it has another one", Do: "rename it, if you like"})
		}
		op.name = name
	}
}

// stem returns a name without the number at its end with which a generator made it unique. A number that the path has, too,
// means something.
func (op *operation) stem() string {
	name := strings.TrimRight(op.name, "0123456789")
	number := op.name[len(name):]
	if number == "" || len(number) > 2 || len(name) < 2 {
		return op.name
	}
	last := op.name[strings.LastIndexByte(op.name, '_')+1:]
	for _, word := range strings.Split(snake(op.raw.path), "_") {
		if word == last || word == "v"+number || strings.HasSuffix(last, word) && strings.HasSuffix(word, number) {
			return op.name
		}
	}
	return strings.TrimRight(name, "_")
}

// tellApart gives operations that have the same name, but for a number, names with their methods and words of their paths.
func tellApart(ops []*operation) {
	groups := map[string][]*operation{}
	var order []string
	for _, op := range ops {
		s := op.stem()
		if groups[s] == nil {
			order = append(order, s)
		}
		groups[s] = append(groups[s], op)
	}
	taken := map[string]bool{}
	for _, s := range order {
		if len(groups[s]) == 1 {
			taken[groups[s][0].name] = true
		}
	}
	for _, s := range order {
		if g := groups[s]; len(g) > 1 {
			for _, op := range g {
				op.name = s
				op.findings = append(op.findings, Finding{Class: Guessed, What: "another operation had the same name: it has words of its path", Do: "rename it, if you like"})
			}
			apart(g, taken)
		}
	}
}

// apart gives the operations of one group, which have one name, names that are not taken.
func apart(group []*operation, taken map[string]bool) {
	methods := setOf(group, func(op *operation) string { return op.raw.method })
	for _, op := range group {
		if first, _, _ := strings.Cut(op.name, "_"); len(methods) > 1 && !slices.Contains(verbs[op.raw.method], first) {
			op.name = strings.ToLower(op.raw.method) + "_" + op.name
		}
	}
	every := map[string]int{} // in how many paths of the group a part is
	for _, op := range group {
		for _, part := range distinct(parts(op.raw.path), itself) {
			every[part]++
		}
	}
	own := func(part string) bool { return every[part] < len(group) }
	left := group
	for _, words := range []func(op *operation) []string{
		func(op *operation) []string { return pathWords(op, own, false, false) },
		func(op *operation) []string { return pathWords(op, own, false, true) },
		func(op *operation) []string { return pathWords(op, own, true, true) },
		func(op *operation) []string { return pathWords(op, func(string) bool { return true }, true, true) },
		(*operation).allWords,
	} {
		with := func(op *operation) string {
			name := op.name
			has := strings.Split(name, "_")
			for _, w := range words(op) {
				if !slices.Contains(has, w) || strings.HasPrefix(w, "by_") {
					name += "_" + w
				}
			}
			return name
		}
		count := map[string]int{}
		for _, op := range left {
			count[with(op)]++
		}
		var more []*operation
		for _, op := range left {
			if name := with(op); count[name] == 1 && !taken[name] {
				taken[name] = true
				defer func() { op.name = name }() // the others still need the short one
			} else {
				more = append(more, op)
			}
		}
		if left = more; len(left) == 0 {
			return
		}
	}
}

// parts returns the parts of a path that are not empty.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

// pathWords returns the words of the parts of a path that wanted selects: those that are no placeholders, with all also
// those, and with last the one at the end, behind "by".
func pathWords(op *operation, wanted func(part string) bool, all, last bool) (out []string) {
	list := parts(op.raw.path)
	for i, part := range list {
		name := snake(part)
		switch hole := strings.HasPrefix(part, "{"); {
		case name == "" || !wanted(part):
		case !hole:
			out = append(out, strings.Split(name, "_")...)
		case last && i == len(list)-1:
			out = append(out, "by_"+name)
		case all:
			out = append(out, name)
		}
	}
	return out
}

// allWords returns the words of the whole path, those of marks, too, and the method.
func (op *operation) allWords() []string {
	out := pathWords(op, func(string) bool { return true }, true, true)
	if strings.HasSuffix(op.raw.path, "/") && len(op.raw.path) > 1 {
		out = append(out, "slash")
	}
	return append(out, strings.ToLower(op.raw.method))
}

// otherName returns a name for an operation whose own name another one has.
func (op *operation) otherName(taken map[string]bool) string {
	for _, words := range [][]string{
		pathWords(op, func(string) bool { return true }, false, true), pathWords(op, func(string) bool { return true }, true, true), op.allWords(),
	} {
		name, _ := brief.Name(strings.Join(append([]string{op.name}, words...), "_"), maxOperationName, setOf(words, itself))
		if !taken[name] {
			return name
		}
		name, _ = brief.Name(strings.Join(append([]string{strings.ToLower(op.raw.method)}, words...), "_"), maxOperationName, nil)
		if !taken[name] {
			return name
		}
	}
	return op.name
}

// tellingWords returns the words by which alone a long name differs from another one.
func tellingWords(ops []*operation) map[string]bool {
	out := map[string]bool{}
	if !slices.ContainsFunc(ops, func(op *operation) bool { return len(op.name) > maxOperationName }) {
		return out
	}
	without := map[string]string{} // names without one of their words, and the word
	each := func(op *operation, f func(rest, word string)) {
		words := brief.Words(op.name)
		f(strings.Join(words, "_"), "")
		for i, w := range words {
			f(strings.Join(slices.Concat(words[:i], words[i+1:]), "_"), w)
		}
	}
	for _, op := range ops {
		if len(op.name) <= maxOperationName/2 {
			continue
		}
		each(op, func(rest, word string) {
			if other, there := without[rest]; !there {
				without[rest] = word
			} else if other != word {
				out[other], out[word] = true, true
			}
		})
	}
	delete(out, "")
	return out
}
