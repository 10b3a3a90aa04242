package fit

import "bytes"

// isFrame reports whether a line is a frame of a stack trace. rest is the line without the blanks
// that it begins with. The traces are those of Java, Kotlin, Scala, .NET, JavaScript, Rust, Python, Go, C and C++, Swift,
// PHP, Dart, Ruby, Elixir, Lua, Perl, Haskell, OCaml, Julia and R.
func isFrame(line, rest []byte) bool {
	return len(rest) > 3 && (begins(rest, len(line)-len(rest), line[0] == '\t') || prefixed(line))
}

// begins reports whether a line begins as a frame does, if it is indented so far, by a tab.
func begins(rest []byte, indent int, tab bool) bool {
	switch c := rest[0]; {
	case c == 'a' && rest[1] == 't' && rest[2] == ' ':
		return bytes.IndexByte(rest, ':') > 0 || bytes.IndexByte(rest, '(') > 0 || bytes.IndexByte(rest, '<') > 0
	case c == 'F' && bytes.HasPrefix(rest, []byte(`File "`)):
		return bytes.Contains(rest, []byte(`", line `))
	case c == 'f' && bytes.HasPrefix(rest, []byte("from ")):
		return bytes.Contains(rest, []byte(":in "))
	case c == '#' && isDigit(rest[1]):
		rest = bytes.TrimLeft(rest[1+digitsOf(rest[1:]):], " ")
		return bytes.HasPrefix(rest, []byte("0x")) || bytes.HasPrefix(rest, []byte("{main}")) || bytes.IndexByte(rest, '(') > 0 && (bytes.IndexByte(rest, ':') > 0 || bytes.Contains(rest, []byte("()")))
	case isDigit(c):
		n := digitsOf(rest)
		after := rest[n:]
		return indent > 0 && n < 5 && bytes.HasPrefix(after, []byte(": ")) && (bytes.Contains(after, []byte("::")) || bytes.Contains(after, []byte("0x")) || bytes.IndexByte(after, ' ') == len(": ")-1 && bytes.IndexByte(after[2:], ' ') < 0) ||
			n < 5 && bytes.HasPrefix(after, []byte(": ")) && bytes.HasSuffix(after, []byte(")")) && bytes.IndexByte(after, '(') < bytes.IndexByte(after[2:], ' ')+2 ||
			n < 5 && bytes.HasPrefix(after, []byte("  ")) && bytes.Contains(after, []byte(" 0x")) && bytes.Contains(after, []byte(" + "))
	case c == '(':
		return indent > 0 && (bytes.Contains(rest, []byte(".ex:")) || bytes.Contains(rest, []byte(".erl:")))
	case c == '[' && isDigit(rest[1]):
		return indent > 0 && bytes.IndexByte(rest, ']') < 5 && bytes.IndexByte(rest, '(') > 0
	case c == '.' && bytes.HasPrefix(rest, []byte("... ")):
		return bytes.HasSuffix(bytes.TrimSpace(rest), []byte(" more")) || bytes.Contains(rest, []byte("common frames"))
	case c == '@' && rest[1] == ' ':
		return indent > 0
	}
	return indent > 0 && (bytes.Contains(rest, []byte(".go:")) && (bytes.Contains(rest, []byte(" +0x")) || tab && bytes.IndexByte(rest, ' ') < 0) ||
		bytes.Contains(rest, []byte(": in ")) && (rest[0] == '/' || rest[0] == '.' || bytes.Contains(rest, []byte(".lua:"))) || bytes.HasPrefix(rest, []byte("[C]: in ")) ||
		bytes.Contains(rest, []byte(" called at ")) || bytes.HasPrefix(rest, []byte("Called from ")) || bytes.HasPrefix(rest, []byte("Raised at ")))
}

// prefixed reports whether a line is a frame behind a prefix: of a log, a container, a build.
func prefixed(line []byte) bool {
	head := line[:min(len(line), 100)]
	if bytes.IndexByte(line, '(') < 0 && !bytes.Contains(line, []byte(`", line `)) {
		return false
	}
	for _, mark := range [...]string{"\tat ", "    at ", `  File "`} {
		if i := bytes.Index(head, []byte(mark)); i > 0 {
			rest := line[i+len(mark):]
			return bytes.IndexByte(rest, '(') > 0 && bytes.IndexByte(rest, ':') > 0 || bytes.Contains(rest, []byte(`", line `))
		}
	}
	return false
}

// traceHeads are lines that stand between a message and the frames, in small letters.
var traceHeads = [...]string{"stack trace", "backtrace", "traceback", "callstack", "call stack", "goroutine ", "[signal ", "--- end of", "stacktrace", "calls: "}

// isTraceHead reports whether a line only says that frames follow.
func isTraceHead(rest []byte) bool {
	low := bytes.ToLower(rest[:min(len(rest), 40)])
	for _, h := range traceHeads {
		if at := bytes.Index(low, []byte(h)); at >= 0 && at < 12 {
			return true
		}
	}
	return false
}

// maxHeads is how many lines there may be between a message and the frames.
const maxHeads = 4

// causes returns the lines that say what was thrown: those before frames, and in Python
// those after. frame says of each line whether it is a frame.
func causes(frame []bool, line func(i int) []byte) (all []int) {
	for i := 0; i < len(frame); i++ {
		if !frame[i] {
			continue
		}
		end, frames := i, 0
		for end < len(frame) && frame[end] {
			end++
			frames++
		}
		head, python := false, false
		j := i - 1
		for ; j >= 0 && j >= i-maxHeads && !frame[j] && isTraceHead(bytes.TrimLeft(line(j), " \t")); j-- {
			head = true
			python = python || bytes.Contains(line(j), []byte("most recent call last"))
		}
		switch {
		case frames < 2 && !head:
		case python && end < len(frame):
			all = append(all, end)
		case !python && j >= 0 && !frame[j]:
			all = append(all, j)
		}
		i = end - 1
	}
	return all
}
