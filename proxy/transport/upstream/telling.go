package upstream

import (
	"regexp"
	"strings"
)

// Telling returns, of the last lines that a program wrote to its standard error, the text that says why it ended or does not go on: the
// message of the last trace, as the runtimes and package runners that start servers write it, else the last line that is no frame of a
// stack, no bracket and no version. It is the last line if no line is any of that, and "" if there is none. The oldest line comes first.
func Telling(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		for _, t := range traces {
			if t.begins.MatchString(lines[i]) {
				if said := t.message(lines, i); said != "" {
					return said
				}
			}
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if !isFiller(lines[i]) {
			return strings.TrimSpace(lines[i])
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// trace is the form in which a runtime says why it ends.
type trace struct {
	begins  *regexp.Regexp // the line by which the trace is found; the last one counts
	message func(lines []string, at int) string
}

var traces = []trace{
	{regexp.MustCompile(`^(panic|fatal error): `), func(lines []string, at int) string { return strings.TrimSpace(lines[at]) }}, // Go
	{regexp.MustCompile(`^thread '.*' (\(\d+\) )?panicked at `), rustPanic},
	{regexp.MustCompile(`^Traceback \(most recent call last\):`), pythonError},
	{regexp.MustCompile(`^(Exception in thread ".*" |Caused by: )`), javaException},
	{regexp.MustCompile(`^(Node\.js v\d|Bun v\d)`), nodeError},
	{npmLine, npmError},
	{regexp.MustCompile(`^\s*× `), uvError},
}

// fillers are lines of a trace, or behind it, that say nothing alone.
var fillers = regexp.MustCompile(`^\s*(at |File "|\^+$|~*\^+~*$|[\[\](){},;]*$|\.\.\. \d+ more|note: run with |goroutine \d+ |Node\.js v\d|Bun v\d|npm (error|ERR!)\s*$|npm (error|ERR!) A complete log|npm (error|ERR!)\s+/.*-debug)`)

func isFiller(line string) bool { return fillers.MatchString(line) }

// rustPanic joins the place of a panic with its message, which stands in the next line since Rust 1.73.
func rustPanic(lines []string, at int) string {
	said := strings.TrimSpace(lines[at])
	if strings.HasSuffix(said, ":") && at+1 < len(lines) && !isFiller(lines[at+1]) {
		said += " " + strings.TrimSpace(lines[at+1])
	}
	return said
}

var pythonName = regexp.MustCompile(`^[A-Za-z_][\w.]*(: |:?$)`)

// pythonError returns the line behind the frames of a traceback, which names the exception.
func pythonError(lines []string, at int) string {
	for _, line := range lines[at+1:] {
		if !strings.HasPrefix(line, " ") && pythonName.MatchString(line) {
			return line
		}
	}
	return ""
}

// javaException returns the first line of an exception and its deepest cause.
func javaException(lines []string, at int) string {
	said := strings.TrimSpace(lines[at])
	if !strings.HasPrefix(said, "Caused by: ") {
		return said
	}
	for i := at - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "Exception in thread ") {
			return strings.TrimSpace(lines[i]) + "; " + said
		}
	}
	return said
}

var (
	nodeFrame = regexp.MustCompile(`^\s*at `)
	nodeName  = regexp.MustCompile(`^[A-Za-z_$][\w$.]*( \[[^\]]+\])?: `)
)

// nodeError returns the line above the frames of an uncaught error. Behind the frames stand the error's members and the version.
func nodeError(lines []string, at int) string {
	frame := -1
	for i := at - 1; i >= 0; i-- {
		if nodeFrame.MatchString(lines[i]) {
			frame = i
		} else if frame >= 0 {
			break
		}
	}
	for i := frame - 1; i >= 0 && !isFiller(lines[i]); i-- { // the message may have several lines
		if nodeName.MatchString(lines[i]) {
			return strings.TrimSpace(lines[i])
		}
	}
	if frame > 0 && !isFiller(lines[frame-1]) {
		return strings.TrimSpace(lines[frame-1])
	}
	return ""
}

var npmLine = regexp.MustCompile(`^npm (error|ERR!)`)

// npmDetail are the lines of npm that say nothing to a person alone.
var npmDetail = regexp.MustCompile(`^npm (error|ERR!)(\s*$| (code|errno|syscall|path|dest|command|signal|workspace|location|cwd|Lifecycle script|A complete log|Log files)\b| +/)`)

// npmError returns the first line of npm's last report that says what is wrong.
func npmError(lines []string, at int) string {
	from := at
	for from > 0 && npmLine.MatchString(lines[from-1]) {
		from--
	}
	for _, line := range lines[from : at+1] {
		if !npmDetail.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// uvError joins the lines of an error of uv and uvx.
func uvError(lines []string, at int) string {
	said := strings.TrimSpace(lines[at])
	for _, line := range lines[at+1:] {
		text := strings.TrimSpace(line)
		if more, is := strings.CutPrefix(text, "╰─▶ "); is {
			text = more
		} else if !strings.HasPrefix(line, " ") || text == "" {
			break
		}
		said += " " + text
	}
	return said
}
