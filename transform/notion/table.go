package notion

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// maxPadding is how many cells a short row may be filled up to. It is bounded
// because a row without cells costs almost nothing in the input.
const maxPadding = 100

func (c *converter) rows(rows []tree.Value, width int, columnHeader, rowHeader bool) {
	most := 0
	for _, r := range rows {
		n := 0
		for range r.Get("table_row", "cells").Elements() {
			n++
		}
		most = max(most, n)
	}
	if width <= 0 || width > max(most, maxPadding) {
		width = most
	}
	if width == 0 {
		return
	}
	c.separate(paragraph)
	if columnHeader {
		c.row(rows[0], width, width, rowHeader)
		rows = rows[1:]
	} else {
		c.add("|" + strings.Repeat("  |", width))
	}
	c.newline()
	c.add("|" + strings.Repeat(" --- |", width))
	for _, r := range rows {
		c.newline()
		c.row(r, width, min(width, maxPadding), rowHeader)
	}
}

// row writes at most width cells, and empty ones after them up to least.
func (c *converter) row(r tree.Value, width, least int, header bool) {
	n := 0
	c.add("|")
	for cell := range r.Get("table_row", "cells").Elements() {
		if n == width {
			break
		}
		text := c.rich(cell, tree.Value{}, inCell)
		if n == 0 && header && text != "" && !strings.HasPrefix(text, "**") {
			text = "**" + text + "**"
		}
		c.add(" " + text + " |")
		n++
	}
	for ; n < least; n++ {
		c.add("  |")
	}
}
