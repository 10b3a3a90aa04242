package secret

import "strings"

// A private key in PEM stands between two lines that name it: https://www.rfc-editor.org/rfc/rfc7468#section-2.
const (
	keyBegins = "-----BEGIN "
	keyEnds   = "-----END "
	dashes    = "-----"
	keyLabel  = "PRIVATE KEY"
	// maxLabel is how many bytes of a label are read.
	maxLabel = 64
	// maxKeyLines is how many lines a key has at most, one of 16,384 bits with its headers.
	maxKeyLines = 256
	// keyRun is how many characters of base64 in a row are a part of a key, if its end has not come and there is more on the line.
	keyRun = 32
)

// KeyLength returns the length of the private key in PEM that text begins with, or 0 if it is something else. A key without an end is as
// long as the text.
func KeyLength(text string) int {
	rest, ok := strings.CutPrefix(text, keyBegins)
	if !ok {
		return 0
	}
	if label, _, _ := strings.Cut(rest[:min(len(rest), maxLabel)], dashes); !strings.Contains(label, keyLabel) {
		return 0
	}
	at := strings.Index(text, keyEnds)
	if at < 0 {
		return len(text)
	}
	return keyEnd(text, at)
}

// keyEnd returns where the line ends that ends a key and begins at an index.
func keyEnd(text string, at int) int {
	at += len(keyEnds)
	to := strings.Index(text[at:], dashes)
	if to < 0 {
		return len(text)
	}
	return at + to + len(dashes)
}

// Lines strikes private keys in PEM out of a text that comes line by line, such as what a process logs: no line but the first says
// that it belongs to one. The zero value is at the beginning of the text.
type Lines struct {
	more int  // lines that the key may still have; 0 if none has begun
	torn bool // a line that is not of the key came between
}

// Line returns the next line without what belongs to a private key; "" if nothing is left. Once a key has begun, until its end or as many
// lines as a key has, that is each line of base64, or in a line with other text what is too long for a word.
func (l *Lines) Line(line string) string {
	var kept strings.Builder
	for {
		if l.more == 0 {
			at := keyAt(line)
			if at < 0 && kept.Len() == 0 {
				return line
			}
			if at < 0 {
				kept.WriteString(line)
				return kept.String()
			}
			kept.WriteString(line[:at] + Struck)
			if at += len(keyBegins); !strings.Contains(line[at:], keyEnds) {
				*l = Lines{more: maxKeyLines}
				return kept.String()
			}
			line = line[keyEnd(line, at+strings.Index(line[at:], keyEnds)):]
			continue
		}
		at := strings.Index(line, keyEnds)
		if at < 0 {
			l.more--
			kept.WriteString(l.body(line))
			return kept.String()
		}
		kept.WriteString(l.body(line[:at]))
		*l = Lines{}
		if line = line[keyEnd(line, at):]; strings.TrimSpace(line) == "" {
			return kept.String()
		}
	}
}

// keyAt returns where a private key begins in a text, or -1.
func keyAt(text string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], keyBegins)
		if at < 0 {
			return -1
		}
		if at += from; KeyLength(text[at:]) > 0 {
			return at
		}
		from = at + len(keyBegins)
	}
}

// body returns a line within a key without the part of it.
func (l *Lines) body(line string) string {
	text := strings.TrimSpace(line)
	run := 0
	for run < len(text) && isBase64(text[run]) {
		run++
	}
	switch header := strings.HasPrefix(text, "Proc-Type:") || strings.HasPrefix(text, "DEK-Info:"); {
	case run == len(text) && (!l.torn || run >= keyRun), header:
		return ""
	}
	l.torn = true
	var kept strings.Builder
	for i := 0; i < len(line); {
		end := i
		for end < len(line) && isBase64(line[end]) {
			end++
		}
		switch {
		case end-i >= keyRun:
			kept.WriteString(Struck)
		case end == i:
			end++
			fallthrough
		default:
			kept.WriteString(line[i:end])
		}
		i = end
	}
	return kept.String()
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '='
}
