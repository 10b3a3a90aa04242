// Package notion turns what Notion's API answers into Markdown: blocks, pages
// and lists of either.
//
//	https://developers.notion.com/reference/block
//	https://developers.notion.com/reference/rich-text
//
// Input and output are bytes. Time and memory are proportional to the input,
// even if members are missing, null, of another kind than documented, or of a
// block type that did not exist when this was written.
//
//   - notion.go finds out what the input is, block.go writes one block and
//     those below it, table.go and media.go write the larger kinds of block;
//   - rich.go writes rich text, escape.go escapes what in it would be taken for
//     Markdown;
//   - property.go reads the properties of pages;
//   - simple.go writes the other output, JSON reduced to the essential;
//   - writer.go begins each line with the indent and the quote marks that it
//     needs.
package notion

import (
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Output is what a conversion writes.
type Output string

// The outputs.
const (
	Markdown Output = "markdown"
	JSON     Output = "json" // the blocks and properties, simplified
)

// Options say how to convert. Start from [Defaults].
type Options struct {
	Output     Output
	MaxNesting int    // levels of indent, 1 to 50; blocks nested deeper have the indent of the last level
	Unknown    string // "note" writes [unsupported: type] for blocks of an unknown type, "skip" nothing
	Escape     string // "minimal" escapes what would be Markdown, "full" what might be
	KeepSigned bool   // leave the signature in the addresses of Notion's own files
	HTML       bool   // <u> for underlined text, which Markdown has no mark for
}

// Defaults returns the options that apply if a configuration sets none.
func Defaults() Options {
	return Options{Output: Markdown, MaxNesting: 10, Unknown: "note", Escape: "minimal"}
}

// Recognize reports whether v is a block or page of Notion's API, or a list of
// these, according to the member object in which the API names the type.
func Recognize(v tree.Value) bool {
	return inspect(v).kind != nothing && sure(v)
}

func sure(v tree.Value) bool {
	for e := range v.Elements() {
		v = e
		break
	}
	switch v.Get("object").Text() {
	case "block", "page":
		return true
	case "list":
		for e := range v.Get("results").Elements() {
			return sure(e)
		}
	}
	return false
}

type documentKind int

const (
	nothing documentKind = iota
	aBlock
	aPage
	blockList
	pageList
)

// document is the input of a conversion.
type document struct {
	kind    documentKind
	value   tree.Value // the block or the page
	list    tree.Value // an array of blocks or pages; a page's blocks
	wrapper tree.Value // the object that the list came in, None for a bare array
}

func inspect(v tree.Value) document {
	switch {
	case v.Is(wire.Array):
		return document{kind: listKind(v), list: v}
	case !v.Is(wire.Object):
		return document{}
	case isBlock(v):
		return document{kind: aBlock, value: v}
	case isPage(v):
		return document{kind: aPage, value: v, list: blocksOf(v)}
	}
	list := blocksOf(v)
	return document{kind: listKind(list), list: list, wrapper: v}
}

// blocksOf returns the array of blocks in an object that is not a block.
func blocksOf(v tree.Value) tree.Value {
	for _, name := range []string{"results", "blocks", "children", "content"} {
		m := v.Get(name)
		if m.Is(wire.Object) {
			m = m.Get("results")
		}
		if listKind(m) != nothing {
			return m
		}
	}
	return tree.Value{}
}

// listKind returns the kind of an array, by its first object.
func listKind(v tree.Value) documentKind {
	for e := range v.Elements() {
		switch {
		case isBlock(e):
			return blockList
		case isPage(e) || isDatabase(e):
			return pageList
		case e.Is(wire.Object):
			return nothing
		}
	}
	return nothing
}

func isBlock(v tree.Value) bool {
	kind := v.Get("object")
	if kind.Present() {
		return kind.Text() == "block"
	}
	name := v.Get("type")
	return name.Is(wire.String) && v.Get(name.Text()).Is(wire.Object)
}

func isPage(v tree.Value) bool { return v.Get("object").Text() == "page" }

func isDatabase(v tree.Value) bool {
	kind := v.Get("object").Text()
	return kind == "database" || kind == "data_source"
}

// hidden reports whether a block or page is archived or in the trash.
func hidden(v tree.Value) bool { return v.Get("archived").True() || v.Get("in_trash").True() }
