package find

import (
	"strings"
	"unicode"
)

// Words returns the words of text as an index has them: in lower case, without endings, and
// without words that say nothing. Names in snake_case and camelCase are several words.
func Words(text string) []string {
	list := split(text)
	out := list[:0]
	for _, w := range list {
		if !stops[w] {
			out = append(out, stem(w))
		}
	}
	return out
}

// split returns the words of text in lower case.
func split(text string) (out []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	lower := false // the previous character is a lower-case letter
	for _, r := range text {
		switch {
		case unicode.IsUpper(r):
			if lower {
				end()
			}
			word.WriteRune(unicode.ToLower(r))
			lower = false
			continue
		case unicode.IsLetter(r), unicode.IsDigit(r):
			word.WriteRune(r)
		case r == '\'' || r == '’':
			continue
		default:
			end()
		}
		lower = unicode.IsLower(r)
	}
	end()
	return out
}

// stem removes the endings of plurals, of participles and of the third person. It is coarse:
// only words of queries and descriptions are compared, and both lose the same.
func stem(w string) string {
	if s, ok := irregular[w]; ok {
		return s
	}
	n := len(w)
	switch {
	case n > 4 && strings.HasSuffix(w, "ies"):
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "xes")):
		w = w[:n-2]
	case n > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:n-1]
	}
	n = len(w)
	switch {
	case n > 5 && strings.HasSuffix(w, "ing"):
		w = undouble(w[:n-3])
	case n > 4 && strings.HasSuffix(w, "ied"):
		w = w[:n-3] + "y"
	case n > 4 && strings.HasSuffix(w, "ed"):
		w = undouble(w[:n-2])
	}
	if n = len(w); n > 7 && strings.HasSuffix(w, "ction") { // protection and protect
		return w[:n-3]
	}
	if n > 3 && w[n-1] == 'e' { // delete and deleting
		w = w[:n-1]
	}
	return w
}

// undouble removes the second of two equal consonants at the end: stopp of stopped.
func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("aeiouls", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// irregular are words that stem would not recognize as another form of the same word.
var irregular = map[string]string{
	"people": "person", "children": "child", "wrote": "write", "written": "write", "ran": "run", "got": "get",
	"made": "mak", "logged": "login", "signed": "login", "sent": "send", "found": "find", "shown": "show", "went": "go", "repos": "repo", "prs": "pr", "running": "run", "status": "status",
	"bought": "buy", "paid": "pay", "sold": "sell", "gave": "give", "given": "give", "took": "take", "taken": "take", "broke": "break", "spent": "spend", "drew": "draw", "drawn": "draw",
	"lost": "lose", "kept": "keep", "began": "begin", "chose": "choose", "heard": "hear", "met": "meet", "told": "tell", "men": "man", "women": "woman", "news": "news", "series": "series", "analyses": "analysis",
}

// stops are words that say nothing about an operation.
var stops = setOf(`a an and are as at be by can could do does for from has have how i'd if in into is it its of off on or our
	please should some that the their them then there these they this those to us want was we were what when where which will with would you your all any also am been being did
	just let need up out my mine i am`)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// endings are what forms of a word have in place of each other, behind what stem leaves: pay and
// payment, invit and invitation, react and reactor.
var endings = setOf("er or ion ation ition ment ship anc enc al ly abl ibl ity iv y ant ent ing ist ee at iz")

// maxEnding is the length of the longest ending.
const maxEnding = 5

// verbs are the categories that verbs mean. The first verb of a query counts.
var verbs = [...]struct {
	words      string
	categories []Category
}{
	{"get show list read see view fetch display find search look lookup check count tell download compare who which what where browse query retrieve inspect listen know return export verify validate preview estimate calculate predict track watch monitor hear", []Category{Read}},
	{"create make new open write post draft file register comment insert remind generate plan schedule build setup deploy", []Category{Create, Execute}},
	{"send text email mail publish buy purchase order book draw issue refund pay charge log submit translate transcribe reply answer convert notify call message request report", []Category{Create, Execute, Update}},
	{"add append attach upload invite copy fork give grant assign share import record connect link subscribe join react vote rate tag label pin apply clone duplicate upsert", []Category{Create, Update, Execute}},
	{"change edit update modify rename set put replace close reopen assign move mark lock star follow protect enable block ban save turn restore recover undo disable rotate renew extend patch adjust configure resize scale upgrade transfer transition mute hide unblock unban unlock activate deactivate complete finish fix reorder sort reset", []Category{Update, Create, Execute}},
	{"delete remove drop destroy erase clear trash unstar unfollow throw revoke unsubscribe uninstall disconnect detach unlink empty purge prune leave unpublish wipe", []Category{Delete, Update, Execute}},
	{"run start stop cancel restart rerun retry trigger dispatch merge execute launch kick pause resume skip play end terminate hang shut shutdown reboot approve accept reject decline archive confirm capture void expire rollback", []Category{Execute, Create, Update, Delete}},
}

// asks are first words of questions about what there is, and quantities what may follow how in them.
var (
	asks       = setOf("who what whats which whose where when is are was were does did has")
	states     = setOf("is are was were does did has") // their questions may be about one thing
	quantities = setOf("many much long often far old big")
	pronouns   = setOf("i we he she they you that which who where when while because") // begin a clause that says more
)
