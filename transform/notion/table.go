package notion

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// maxPadding is how many cells a short row may be filled up to. It is bounded
// because a row without cells costs almost nothing in the input.
const maxPadding = 100

// table writes a table as GitHub does:
// https://github.github.com/gfm/#tables-extension-
func (c *converter) table(b, p tree.Value) {
	list, wrapper, _ := childrenOf(b, p)
	var rows, others []tree.Value
	for e := range list.Elements() {
		switch {
		case e.Get("type").Text() != "table_row":
			others = append(others, e)
		case !hidden(e):
			rows = append(rows, e)
		}
	}
	width, _ := strconv.Atoi(p.Get("table_width").Scalar())
	if len(rows) == 0 {
		c.paragraph(fmt.Sprintf("[table, %d columns, rows not loaded]", max(width, 0)))
	} else {
		c.rows(rows, width, p.Get("has_column_header").True(), p.Get("has_row_header").True())
	}
	for _, e := range others {
		c.block(e)
	}
	c.footer(wrapper)
}

// strayRows writes rows that came without their table.
func (c *converter) strayRows(rows []tree.Value) {
	if len(rows) > 0 {
		c.at.counting = false
		c.rows(rows, 0, false, false)
	}
}

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
