package capper

import (
	"regexp"
	"slices"
	"strings"
)

// The rules for answers that are texts.

var (
	errorLine   = regexp.MustCompile(`(?i)\b(error|fatal|panic|exception|failed|failure|traceback|cannot|unable|undefined|denied)\b|\bE\d{3,4}\b|(Error|Exception)\b`)
	failLine    = regexp.MustCompile(`--- FAIL|^FAIL|FAILED|✕|●|^not ok|^ERROR `)
	detailLine  = regexp.MustCompile(`^E  |Expected|Received|_test\.go:\d+|AssertionError`)
	summaryLine = regexp.MustCompile(`^(Tests:|Test Suites:|Snapshots:|ok\s|FAIL|PASS|Ran )|^=+ .* =+$|\d+ (passed|failed|passing|failing)`)
	thrownLine  = regexp.MustCompile(`^\s*(Caused by: )?[\w.$]*(Error|Exception)\b`)
	frameLine   = regexp.MustCompile(`File ".*", line \d+|^\s+at .*\(|\.go:\d+`)
	underline   = regexp.MustCompile(`^(===+|---+)\s*$`)
	digits      = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)
)

// log adds the last error, the first, others spread between them, lines unlike all others,
// the first and last lines, and some of all lines.
func (f *finder) log(lines []string) {
	shapes := make(map[string]int)
	for _, l := range lines {
		shapes[digits.ReplaceAllString(l, "0")]++
	}
	var bad, rare []string
	for _, l := range lines {
		if errorLine.MatchString(l) {
			bad = append(bad, l)
		} else if len(lines) > 100 && shapes[digits.ReplaceAllString(l, "0")] == 1 && letters(l) >= 8 {
			rare = append(rare, l)
		}
	}
	if len(bad) > 0 {
		f.line(bad[len(bad)-1], 4)
		f.line(bad[0], 3)
		f.someLines(bad, 8, 2)
	}
	f.someLines(rare, 4, 1.5)
	f.ends(lines, 1, 3)
	f.someLines(lines, 10, .5)
}

// ends adds the first line, the last and the two before it.
func (f *finder) ends(lines []string, first, last float64) {
	f.line(firstLine(strings.Join(lines[:min(len(lines), 20)], "\n")), first)
	n := 0
	for i := len(lines) - 1; i >= 0 && n < 3; i-- {
		if letters(lines[i]) >= 8 {
			f.line(lines[i], last)
			last = 1
			n++
		}
	}
}

// test adds the failed tests, the details of the failures, and the summary.
func (f *finder) test(lines []string) {
	f.matching(lines, failLine, 14, 3)
	f.matching(lines, detailLine, 10, 2)
	sum := matching(lines, summaryLine)
	for _, l := range sum[max(0, len(sum)-4):] {
		f.line(l, 3)
	}
	f.ends(lines, 1, 2)
	f.someLines(lines, 6, .5)
}

// trace adds the thrown error, and where it was thrown.
func (f *finder) trace(lines []string) {
	thrown := matching(lines, thrownLine)
	if len(thrown) > 0 {
		f.line(thrown[len(thrown)-1], 4)
	}
	f.someLines(thrown, 8, 3)
	last := 0
	for i, l := range lines {
		if thrownLine.MatchString(l) || strings.HasPrefix(l, "Traceback") {
			last = i
		}
	}
	frames := matching(lines[max(0, last-12):], frameLine)
	for _, l := range frames[:min(3, len(frames))] {
		f.line(l, 1.5)
	}
	for _, l := range frames[max(0, len(frames)-3):] {
		f.line(l, 1.5)
	}
	f.ends(lines, 1, 2)
}

// markdown adds headings, the first lines below some of them, and code.
func (f *finder) markdown(lines []string) {
	var heads, firsts, code []string
	open, want := "", false
	for i, l := range lines {
		t := strings.TrimSpace(l)
		if i+1 < len(lines) && t != "" && underline.MatchString(lines[i+1]) {
			t = "# " + t
		}
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			if open == "" {
				open = t[:3]
				code = append(code, "")
			} else if strings.HasPrefix(t, open) {
				open = ""
			}
			continue
		}
		level := len(t) - len(strings.TrimLeft(t, "#"))
		switch {
		case open != "":
			if n := len(code) - 1; code[n] == "" {
				code[n] = l
			}
		case level > 0 && level <= 6 && strings.HasPrefix(t[level:], " "):
			heads = append(heads, t)
			want = true
		case want && letters(t) >= 8:
			firsts, want = append(firsts, clip(t, 80)), false
		}
	}
	for _, h := range spread(heads, 40) {
		level := len(h) - len(strings.TrimLeft(h, "#"))
		f.add([]float64{2, 2, 1.5, 1, 1, 1}[level-1], h[level+1:])
	}
	f.someLines(firsts, 12, 1)
	f.someLines(code, 6, .5)
	f.someLines(lines, 6, .5)
	f.ends(lines, 1, 1)
}

var (
	signature = regexp.MustCompile(`^\s{0,4}(export |public |private |protected |static |async |abstract |pub |def |class |func |function |interface |struct |enum |type |module |impl |fn |- ?\(|\+ ?\(|@interface|@implementation|template|module\.exports|exports\.)|^\w[\w:<>*& ]+\(.*\)\s*\{$|^\w[\w.]+ = function`)
	importing = regexp.MustCompile(`^\s*(import |from |#include|#import|use |require|(const|var) .*require\()`)
	comment   = regexp.MustCompile(`^\s*(//|#|/\*|\*|""")`)
)

// source adds signatures, first comments, and some of all lines.
func (f *finder) source(lines []string) {
	f.matching(lines, signature, 30, 2)
	for i, l := range matching(lines, comment) {
		if i == 3 {
			break
		}
		f.line(l, 1)
	}
	for i, l := range matching(lines, importing) {
		if i == 3 {
			break
		}
		f.line(l, .5)
	}
	f.line(firstLine(strings.Join(lines[:min(len(lines), 20)], "\n")), .5)
	f.someLines(lines, 8, .5)
}

// csv adds the header, and rows spread over the table, the last one included.
func (f *finder) csv(lines []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) < 2 {
		return
	}
	f.line(lines[0], 3)
	f.line(lines[len(lines)-1], 1.5)
	f.someLines(lines[1:], 12, 1)
}

var (
	titleTag   = regexp.MustCompile(`(?is)<title[^>]*>([^<]+)`)
	headingTag = regexp.MustCompile(`(?is)<h[1-4][^>]*>(.*?)</h[1-4]>`)
	paragraph  = regexp.MustCompile(`(?is)<(?:p|li|dd|td)[^>]*>\s*([^<]{24,})`)
	tag        = regexp.MustCompile(`(?s)<[^>]*>`)
)

// html adds the title, headings, and the beginnings of some paragraphs.
func (f *finder) html(lines []string) {
	text := strings.Join(lines, "\n")
	for _, m := range titleTag.FindAllStringSubmatch(text, 1) {
		f.add(3, m[1])
	}
	var heads, paras []string
	for _, m := range headingTag.FindAllStringSubmatch(text, -1) {
		run := "" // the longest text without a tag in it
		for _, part := range tag.Split(m[1], -1) {
			if len(part) > len(run) {
				run = part
			}
		}
		heads = append(heads, run)
	}
	for _, m := range paragraph.FindAllStringSubmatch(text, -1) {
		paras = append(paras, clip(strings.TrimSpace(m[1]), 60))
	}
	for _, h := range spread(heads, 25) {
		f.add(2, h)
	}
	for _, p := range spread(paras, 10) {
		f.add(1, p)
	}
}

// search adds the files that were found, and some of the lines.
func (f *finder) search(lines []string) {
	var files []string
	for _, l := range lines {
		if path, _, ok := strings.Cut(l, ":"); ok && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	for _, p := range spread(files, 20) {
		f.add(2, p)
	}
	f.someLines(lines, 10, 1)
	f.ends(lines, 1, 1)
}

// lines adds the first and last lines, header lines of a diff, and some of all lines.
func (f *finder) lines(lines []string) {
	f.matching(lines, regexp.MustCompile(`^(diff --git|commit )`), 20, 2)
	f.someLines(lines, 25, 1)
	f.ends(lines, 1.5, 1.5)
}

func (f *finder) matching(lines []string, re *regexp.Regexp, n int, weight float64) {
	f.someLines(matching(lines, re), n, weight)
}

// matching returns the lines that match, each once.
func matching(lines []string, re *regexp.Regexp) (all []string) {
	seen := make(map[string]bool)
	for _, l := range lines {
		if re.MatchString(l) && !seen[l] {
			seen[l] = true
			all = append(all, l)
		}
	}
	return all
}
