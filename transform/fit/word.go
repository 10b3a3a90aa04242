package fit

import "bytes"

// A grade says how much the words of a line tell of something that went wrong.
type grade uint8

const (
	plain grade = iota
	weak        // a warning
	wrong       // an error
	state       // a state in which things do not work
	grave       // the end of a program, something that will be lost, what a plan comes to
)

// A use says where a word has its grade.
type use uint8

const (
	asWord      use = iota // as a word, and not as a part of a path or an identifier
	alone                  // only if the word is a value: a cell, what follows a colon
	afterBe                // only in: will be deleted, has been removed
	afterNumber            // only in: 2 to destroy
	atStart                // only at the beginning of a line
	withNumber             // only if a number other than 0 follows: exit code 137
	withFailure            // only if a number for a failure follows: status 503, status=1/FAILURE
	withFalse              // only if false follows: Ready: False
	withTrue               // only if true follows: DiskPressure True
	withSignal             // only if the name of a signal follows: signal=KILL
	withStatus             // only if a version and a status for a failure follow: HTTP/1.1" 502
	asLevel                // only as the level of a log: [info], WARN
)

// A word is what a line may have in it, or the beginning of it.
type word struct {
	text  string
	grade grade
	use   use
}

// words are looked for in each line. A word has at least four bytes. The words in capitals and
// small letters are the same if they are ASCII.
var words = func() (all []word) {
	for _, w := range []struct {
		grade grade
		use   use
		texts []string
	}{
		{weak, asLevel, []string{"info", "debug", "trace", "notice", "warn", "warning"}},
		{weak, asWord, []string{"warning", "deprecated", "warnung", "avertissement", "advertencia", "警告", "경고", "предупреждение", "Предупреждение"}},
		{wrong, asWord, []string{
			"error", "exception", "fail", "traceback", "cannot", "unable", "undefined", "denied", "assert", "expected", "received", "refused", "timed out", "unexpected", "errno", "not found", "no such", "forbidden", "unauthorized", "invalid", "critical", "unmet", "exceeded", "throttl", "no space left", "not permitted", "conflict", "nicht gefunden", "verweigert",
			// the same in other languages
			"fehler", "fehlgeschlagen", "ausnahme", "erreur", "échec", "Échec", "échoué", "échoue", "fallo", "falló", "excepción", "errore", "fallit", "eccezione", "erro:", "falha", "falhou", "exceção", "fout:", "mislukt", "błąd", "Błąd", "chyba", "selhal", "hata:", "başarısız", "virhe", "misslyckades", "hiba:",
			"ошибк", "Ошибк", "ОШИБК", "сбой", "Сбой", "исключение", "Исключение", "не удалось", "Не удалось", "помилк", "Помилк",
			"错误", "失败", "异常", "錯誤", "失敗", "異常", "エラー", "例外", "오류", "실패", "예외", "خطأ", "فشل", "שגיאה", "נכשל", "lỗi", "Lỗi", "thất bại", "त्रुटि",
		}},
		{grave, asWord, []string{
			"fatal", "panic", "emerg", "caused by", "unhandled", "uncaught", "segfault", "segmentation fault", "core dumped", "out of memory", "terminate called", "addresssanitizer", "data loss", "deadlock", "kernel bug",
			"must be replaced", "forces replacement", "requires replacement", "drop table", "drop column", "drop database", "truncate table", "no longer be managed",
		}},
		{state, asWord, []string{
			"crashloopbackoff", "imagepullbackoff", "errimage", "backoff", "back-off", "oomkilled", "oom-kill", "evicted", "unhealthy", "unschedulable", "notready", "not ready", "unreachable", "degraded", "outofsync", "impaired", "rollback_", "restarting (", "startup_failure", "action_required", "out_of_service", "both modified:", "both added:", "both deleted:", "deleted by us:", "deleted by them:", "added by us:", "added by them:",
		}},
		{state, alone, []string{
			"pending", "unknown", "terminated", "terminating", "stopped", "stopping", "inactive", "dead", "cancelled", "canceled", "paused", "restarting", "missing", "lost", "offline", "down", "expired", "suspended", "blocked", "aborted", "killed", "rejected", "revoked", "stale", "orphaned", "draining", "insufficient", "alarm", "stuck", "timeout", "timed_out", "violated", "broken", "overdue", "unavailable", "not-found", "severe", "impaired", "delete", "destroy", "replace", "remove", "mismatch", "conflict", "corrupt", "abend", "skew", "lagging", "noncompliant", "non-compliant", "outdated", "quarantined", "faulted", "unavail", "failing", "flapping",
		}},
		{grave, afterBe, []string{"destroyed", "deleted", "replaced", "removed", "dropped", "pruned", "recreated", "overwritten", "truncated", "evicted"}},
		{grave, afterNumber, []string{"to add", "to change", "to destroy", "to create", "to update", "to delete", "to replace", "to remove", "to import", "to recreate", "to uninstall"}},
		{grave, atStart, []string{"plan: ", "apply complete", "destroy complete", "no changes", "play recap", "resources:", "number of stacks", "what():"}},
		{state, withNumber, []string{"exit", "restart", "oom_kill"}},
		{state, withFailure, []string{"status"}},
		{state, withFalse, []string{"ready", "healthy", "available", "running"}},
		{state, withTrue, []string{"pressure", "networkunavailable", "outofdisk"}},
		{state, withSignal, []string{"signal"}},
		{state, withStatus, []string{"http/"}},
		{state, atStart, []string{conflictBegins, conflictEnds}},
	} {
		for _, t := range w.texts {
			all = append(all, word{t, w.grade, w.use})
		}
	}
	return all
}()

// conflictBegins and conflictEnds begin the lines that git writes around what two sides changed.
const conflictBegins, conflictEnds = "<<<<<<< ", ">>>>>>> "

// startsOf has, by the hash of four letters, which words begin with these: places in wordsOf, plus one.
var startsOf, wordsOf = func() (starts [1 << 12]uint8, lists [][]word) {
	for _, w := range words {
		h := hash(uint32(w.text[0]|0x20)<<24 | uint32(w.text[1]|0x20)<<16 | uint32(w.text[2]|0x20)<<8 | uint32(w.text[3]|0x20))
		if starts[h] == 0 {
			lists = append(lists, nil)
			starts[h] = uint8(len(lists))
		}
		lists[starts[h]-1] = append(lists[starts[h]-1], w)
	}
	return starts, lists
}()

func hash(four uint32) uint16 { return uint16(four * 0x9E3779B1 >> 20) }

// weights are what the bytes of a line add to its hash. Digits add nothing.
var weights = func() (w [256]uint32) {
	for c := range w {
		if byte(c)-'0' > 9 {
			w[c] = uint32(c+1) * 0x9E3779B1
			w[c] ^= w[c] >> 15
		}
	}
	return w
}()

// look hashes a line without its numbers, and returns the highest grade of its words. If the line says first that it
// is no error, as a log or a linter does, words for errors are only what it is about.
func look(line []byte) (shape uint16, g grade) {
	window, h, calm := uint32(0), uint32(0), false
	for i, c := range line {
		window = window<<8 | uint32(c|0x20)
		h += weights[c]
		if list := startsOf[hash(window)]; list > 0 && i >= 3 && g < grave {
			now, level := gradeAt(line, i-3, wordsOf[list-1])
			calm = calm || level && g < wrong
			if now == wrong && calm && !shouts(line, i-3) {
				now = weak
			}
			g = max(g, now)
		}
	}
	return uint16(h >> 16), g
}

// shouts reports whether a word is in capitals, or a part of a name: NullPointerException, FailedMount.
func shouts(line []byte, i int) bool {
	named := i > 0 && isLetter(line[i-1])
	for i++; i < len(line) && isLetter(line[i]) && !named; i++ {
		named = line[i] < 'a'
	}
	return named
}

// gradeAt returns the grade of the word that begins at i, which is one of these or none, and whether it is a level.
func gradeAt(line []byte, i int, words []word) (g grade, level bool) {
	if i > 0 && isLetter(line[i-1]) && (line[i] >= 'a' || line[i-1] < 'a') {
		return plain, false // in a word, and not the beginning of a part of a name: NullPointerException
	}
	for _, w := range words {
		if end := i + len(w.text); (w.grade > g || w.use == asLevel) && end <= len(line) && bytes.EqualFold(line[i:end], []byte(w.text)) && w.counts(line, i, end) {
			if w.use == asLevel {
				level = true
				if w.text[0] != 'w' {
					continue // it tells of nothing wrong
				}
			}
			g = max(g, w.grade)
		}
	}
	return g, level
}

// counts reports whether a word from i to end has its grade there.
func (w word) counts(line []byte, i, end int) bool {
	switch w.use {
	case alone:
		return standsAlone(line, i, end)
	case afterBe:
		before := bytes.ToLower(line[max(0, i-6):i])
		return bytes.HasSuffix(before, []byte(" be ")) || bytes.HasSuffix(before, []byte(" been ")) || bytes.HasSuffix(before, []byte("be ")) && i == 3
	case afterNumber:
		return i > 1 && line[i-1] == ' ' && isDigit(line[i-2])
	case atStart:
		return len(bytes.TrimLeft(line[:i], " \t")) == 0
	case withNumber:
		value := valueAfter(line, end)
		return len(value) > 0 && isDigit(value[0]) && !isZero(value)
	case withFailure:
		value := valueAfter(line, end)
		n := digitsOf(value)
		return n == 3 && value[0] == '5' || n > 0 && n < len(value) && value[n] == '/' && !isZero(value)
	case withFalse:
		value := valueAfter(line, end)
		return len(value) > 4 && bytes.EqualFold(value[:5], []byte("false")) || len(value) > 1 && bytes.EqualFold(bytes.TrimSpace(value), []byte("no"))
	case withTrue:
		value := valueAfter(line, end)
		return len(value) > 3 && bytes.EqualFold(value[:4], []byte("true"))
	case withStatus:
		value := bytes.TrimLeft(bytes.TrimLeft(line[end:], "0123456789."), `" `)
		return digitsOf(value) == 3 && (value[0] == '5' || value[0] == '4' && i < 4)
	case asLevel:
		return isLevel(line, i, end)
	case withSignal:
		value := valueAfter(line, end)
		return digitsOf(value) > 0 || len(value) > 3 && value[0] >= 'A' && value[0] <= 'Z' && value[1] >= 'A' && value[1] <= 'Z'
	}
	return line[i] >= 0x80 || spoken(line, i, end)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c-'0' <= 9 }

func digitsOf(text []byte) (n int) {
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// isZero reports whether a text begins with the number 0.
func isZero(text []byte) bool {
	n := digitsOf(text)
	return n > 0 && len(bytes.Trim(text[:n], "0")) == 0 && (n == len(text) || text[n] != '.' || n+1 == len(text) || !isDigit(text[n+1]))
}

// valueAfter returns what follows a name: code: 137, Code=137, ed with code 137, ed (137).
func valueAfter(line []byte, i int) []byte {
	rest := line[i:]
	for len(rest) > 0 {
		switch c := rest[0]; {
		case c == ' ', c == '\t', c == ':', c == '=', c == '(', c == '"', c == '_':
			rest = rest[1:]
			continue
		}
		n := 0
		for n < len(rest) && isLetter(rest[n]) {
			n++
		}
		switch string(bytes.ToLower(rest[:n])) {
		case "ed", "code", "status", "with", "value", "count", "s", "was", "is", "of":
			rest = rest[n:]
			continue
		}
		break
	}
	return rest
}

// levelWithin is how far from the beginning of a line its level is looked for.
const levelWithin = 100

// isLevel reports whether a word is the level of a log: INFO, [info], level=info, 7:3  warning, warning: unused.
func isLevel(line []byte, i, end int) bool {
	switch {
	case i > levelWithin, end < len(line) && joins[line[end]], i > 0 && joins[line[i-1]]:
		return false
	case line[i] < 'a' && line[end-1] < 'a':
		return true
	case end < len(line) && line[end] == ':':
		before := bytes.TrimRight(line[:i], " \t")
		return len(before) == 0 || before[len(before)-1] == ':'
	}
	return standsAlone(line, i, end) || i > 0 && line[i-1] == '=' && end < len(line) && line[end] == ' '
}

// standsAlone reports whether a word is a value, and not a part of a sentence.
func standsAlone(line []byte, i, end int) bool {
	before := bytes.TrimRight(line[:i], `"'`)
	after := bytes.TrimLeft(line[end:], `"'`)
	begins := len(before) == 0 || bytes.IndexByte([]byte("\t|,=([>*"), before[len(before)-1]) >= 0 || bytes.HasSuffix(before, []byte("  ")) || bytes.HasSuffix(before, []byte(":")) ||
		bytes.HasSuffix(before, []byte(": ")) || bytes.HasSuffix(before, []byte("| ")) || bytes.HasSuffix(before, []byte("│ ")) || bytes.HasSuffix(before, []byte(", "))
	ends := len(after) == 0 || bytes.IndexByte([]byte("\t|,;)]}<"), after[0]) >= 0 || bytes.HasPrefix(after, []byte("  ")) || bytes.HasPrefix(after, []byte(" (")) || bytes.HasPrefix(after, []byte(" |")) || bytes.HasPrefix(after, []byte(" │"))
	return begins && ends && (len(before) > 0 || len(after) > 0)
}

// joins are the bytes that make one name or path of several words. A colon does so only beside
// another one.
var joins = func() (b [256]bool) {
	for c := range b {
		b[c] = isLetter(byte(c)) || isDigit(byte(c)) || bytes.IndexByte([]byte(`_./\@$-`), byte(c)) >= 0
	}
	return b
}()

// maxToken bounds how far a name or path is looked at.
const maxToken = 128

// spoken reports whether the word from i to end is a word of a sentence, the name of what was thrown, or
// a name with a value, and not a part of a path, a function or an option, and not denied.
func spoken(line []byte, i, end int) bool {
	from, to := i, end
	for from > 0 && i-from < maxToken && (joins[line[from-1]] || line[from-1] == ':' && from > 1 && (line[from-2] == ':' || line[from] == ':')) {
		from--
	}
	for to < len(line) && to-i < maxToken && (joins[line[to]] || line[to] == ':' && (line[to-1] == ':' || to+1 < len(line) && line[to+1] == ':')) {
		to++
	}
	letters := end
	for letters < to && isLetter(line[letters]) {
		letters++
	}
	for to > letters && bytes.IndexByte([]byte(".-:/"), line[to-1]) >= 0 {
		to--
	}
	before, after := line[from:i], line[letters:to]
	capital := line[i] < 'a'
	value, keyed := keyValue(line, to)
	switch slashes := bytes.Count(line[from:to], []byte("/")); {
	case keyed && hollowWord(value):
		return false
	case bytes.IndexByte(line[from:to], '\\') >= 0, bytes.IndexByte(line[from:to], '@') >= 0:
		return capital && len(after) == 0 && slashes == 0 // PHP: Acme\NotFoundException
	case slashes > 1, slashes == 1 && (!capital || bytes.IndexByte(line[from:to], '.') >= 0):
		return false
	case bytes.Contains(after, []byte("::")), bytes.Contains(before, []byte("::")) && !capital:
		return false
	case len(before) > 0 && before[0] == '-', bytes.IndexByte(before, '.') >= 0 && !capital:
		return false
	}
	if at := bytes.IndexByte(after, '.'); at >= 0 && at+1 < len(after) {
		return false
	}
	if to < len(line) && line[to] == '(' && !capital {
		return false
	}
	if len(before) > 0 && (before[len(before)-1] == '_' || before[len(before)-1] == '-') || len(after) > 0 && (after[0] == '_' || after[0] == '-' || isDigit(after[0])) {
		return keyed || len(bytes.TrimFunc(line[from:to], func(r rune) bool { return r < 'a' || r > 'z' })) == 0 // UPDATE_FAILED
	}
	if len(before) > 0 && isLetter(before[len(before)-1]) { // handleError, but NullPointerException
		first := i
		for first > from && (isLetter(line[first-1]) || isDigit(line[first-1])) {
			first--
		}
		return line[first] < 'a' || keyed
	}
	return keyed || !denied(line[:from])
}

// keyValue returns what follows a name if that is a colon or an equals sign.
func keyValue(line []byte, i int) (value []byte, ok bool) {
	rest := bytes.TrimLeft(line[i:], `"'`)
	if len(rest) == 0 || rest[0] != ':' && rest[0] != '=' {
		return nil, false
	}
	return bytes.TrimLeft(rest[1:], " \t"), true
}

// hollowWord reports whether a value says that there is nothing.
func hollowWord(value []byte) bool {
	n := 0
	for n < len(value) && bytes.IndexByte([]byte(" \t,;)}|"), value[n]) < 0 {
		n++
	}
	switch string(bytes.ToLower(bytes.Trim(value[:n], `.`))) {
	case "no":
		return n+1 >= len(value) || value[n] != ' ' || !isLetter(value[n+1]) // but: no configuration was found
	case "0", "none", "null", "nil", "false", "<nil>", "<none>", `""`, "''", "[]", "{}", "{", "[", `"0"`, "off", "undefined", "[],":
		return n > 0
	}
	return n == 1 && (value[0] == '{' || value[0] == '[')
}

// denied reports whether a text ends so that what follows did not happen: 0 errors, no failures.
func denied(before []byte) bool {
	before = bytes.TrimRight(before, " ")
	n := len(before)
	switch {
	case n > 0 && before[n-1] == '0':
		return n == 1 || !isDigit(before[n-2]) && before[n-2] != '.' && before[n-2] != ','
	case n > 1 && bytes.EqualFold(before[n-2:], []byte("no")):
		return n == 2 || !isLetter(before[n-3])
	}
	return n > 6 && bytes.EqualFold(before[n-7:], []byte("without"))
}
