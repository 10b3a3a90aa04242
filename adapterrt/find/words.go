package find

import (
	"strings"
	"sync"
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
	"people": "person", "children": "child", "left": "leave", "wrote": "write", "written": "write", "ran": "run", "got": "get",
	"made": "mak", "logged": "login", "signed": "login", "sent": "send", "found": "find", "shown": "show", "went": "go", "repos": "repo", "prs": "pr", "running": "run", "status": "status",
}

// stops are words that say nothing about an operation.
var stops = setOf(`a an and are as at be by can could do does for from has have how i'd if in into is it its of off on or our
	please should some that the their them then there these they this those to us want was we were what when where which will with would you your all any also am been being did
	just let need up out`)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// meant is what words mean. It is made for the first search.
var meant = sync.OnceValue(func() (m meanings) {
	m.verbs, m.synonyms = map[string]uint8{}, map[string][]string{}
	for _, v := range [...]struct {
		words      string
		categories []Category
	}{
		{"get show list read see view fetch display find search look lookup check count tell download compare who which what browse query", []Category{Read}},
		{"create make new open write post publish draft file", []Category{Create}},
		{"add append attach upload invite copy fork", []Category{Create, Update}},
		{"change edit update modify rename set put replace close reopen assign move mark lock star follow protect enable block ban save", []Category{Update, Create}},
		{"delete remove drop destroy erase clear trash unstar unfollow unlock unblock throw", []Category{Delete, Update}},
		{"run start stop cancel restart rerun retry trigger dispatch merge execute launch kick", []Category{Execute, Create, Update}},
	} {
		var bits uint8
		for _, c := range v.categories {
			bits |= 1 << c
		}
		for _, w := range strings.Fields(v.words) {
			m.verbs[stem(w)] = bits
		}
	}
	for line := range strings.Lines(synonymText) {
		words, others, _ := strings.Cut(line, ":")
		for _, w := range strings.Fields(words) {
			for _, o := range strings.Fields(others) {
				m.synonyms[stem(w)] = append(m.synonyms[stem(w)], stem(o))
			}
		}
	}
	return m
})

// meanings are what the words of a query mean.
type meanings struct {
	verbs map[string]uint8 // the categories that a verb means, as bits; the first verb of a query counts
	// synonyms are further words for a word of a query, by its stem. They are general English
	// and words of the trade; an operation's own words belong into its aliases.
	synonyms map[string][]string
}

// synonymText has words before the colon, and after it words that mean about the same.
const synonymText = `
show display see view read fetch look inspect: get list
find query lookup: search list get
make new: create add
open file raise report: create
write: create update
add attach: create
put leave: create add set
save store: put create update
edit change modify alter adjust: update set
set: update put
remove erase drop destroy discard throw wipe: delete remove
delete: remove
trash bin: delete archive trash
stop abort end halt: cancel stop
restart retry redo: rerun restart
start launch trigger kick fire execute: run dispatch start
copy duplicate clone: fork copy
ban: block
unban: unblock
invite: add invitation
approve accept: review approve accept
reject decline refuse: review decline
answer reply respond: comment reply
close finish complete resolve done shut: state update close complete
reopen: state update
move transfer: update move transfer state
mute silence: lock unsubscribe
watch follow subscribe: subscription follow
diff difference changed: compare
join: membership
repo: repository
repository: repo
org company organisation: organization
pr prs: pull request
merge: pull merge
ticket bug task story card defect: issue
person someone anyone human teammate colleague: user member collaborator
member user: member user
account profile login logged: user
me my mine myself i: authenticated me
note message remark feedback: comment
conversation thread discussion: issue comment discussion
build ci pipeline job: workflow run action
green red failed failing broken: status run
deploy deployment: deployment workflow
branch tag: ref branch
sprint iteration: cycle
table spreadsheet: database source
row record entry: page item
file document: content file
doc: page document
folder dir directory: content tree
paragraph text: block content
picture photo: image
visitor visit viewer viewed looked seen: view traffic
version: release tag
column stage status: state status
password credential: secret token
access permission right allowed: permission access collaborator
inbox alert: notification alert
snippet: gist
bookmark: star
favorite favourite like: star
attachment binary download: asset download
hook: webhook
env environment: environment variable
history log: log commit event
admin: owner member
group squad: team
team: team member
about detail info: get
`
