package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Class says what a [Finding] means for calls.
type Class string

// The classes of findings.
const (
	Dropped Class = "dropped" // the operation is not in the file
	Weaker  Class = "weaker"  // the file accepts more than the document, or lacks something optional
	Guessed Class = "guessed" // the document does not say it
)

// Finding is something that an adapter file cannot say, or that the document does not say.
type Finding struct {
	File      string `json:"file,omitempty"`      // of the adapter
	Operation string `json:"operation,omitempty"` // its name; METHOD /path if it was dropped; "" for the whole file
	Place     string `json:"place"`               // file:line of the document
	Class     Class  `json:"class"`
	What      string `json:"what"`
	Do        string `json:"do,omitempty"` // what a person may do about it
}

// maxFindings is the largest number of findings of one operation.
const maxFindings = 40

// maxRows is the largest number of rows of the table in a file.
const maxRows = 120

// table writes the findings as a Markdown table. Findings with the same text share a row.
func table(b *strings.Builder, findings []Finding) {
	type row struct {
		Finding
		ops []string
	}
	var rows []*row
	at := map[string]*row{}
	for _, f := range findings {
		key := string(f.Class) + f.What + f.Do
		r := at[key]
		if r == nil {
			r = &row{Finding: f}
			at[key] = r
			rows = append(rows, r)
		}
		if f.Operation != "" && !slices.Contains(r.ops, f.Operation) {
			r.ops = append(r.ops, f.Operation)
		}
	}
	order := []Class{Dropped, Guessed, Weaker}
	slices.SortStableFunc(rows, func(a, b *row) int { return slices.Index(order, a.Class) - slices.Index(order, b.Class) })
	b.WriteString("| | what | where | what to do |\n|---|---|---|---|\n")
	for i, r := range rows {
		if i == maxRows {
			fmt.Fprintf(b, "| | %d more rows; `--report FILE` writes all | | |\n", len(rows)-maxRows)
			break
		}
		where := "the whole file"
		if n := len(r.ops); n > 6 {
			where = strings.Join(r.ops[:5], ", ") + fmt.Sprintf(" and %d more", n-5)
		} else if n > 0 {
			where = strings.Join(r.ops, ", ")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.Class, cell(r.What), cell(where), cell(r.Do))
	}
}

func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ", "`", "'").Replace(s) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
