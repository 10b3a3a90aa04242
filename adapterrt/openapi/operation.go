package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// operation is an operation as an adapter file has it.
type operation struct {
	raw         *rawOperation
	name        string
	tool        string // tool_name; "" for none
	category    string
	mapsTo      string
	baseURL     string // if it is not that of the file
	elsewhere   bool   // the credential is sent to baseURL, which has another origin than the target
	anonymous   bool   // no credential is sent
	tags        []string
	scopes      []string // of OAuth, that it needs
	description string
	params      []*param
	request     request
	response    response
	paging      *paging
	fields      []string // default_fields
	danger      judgement
	deprecated  bool
	findings    []Finding
	dropped     bool
	hash        string // of what is written, but its name
}

// param is a parameter of an operation.
type param struct {
	name     string
	wire     string
	in       string // path, query, header, body
	style    string
	encode   string
	content  string // content_type
	fileType string // of a file
	spread   bool   // its members are sent in its place
	required bool
	needed   bool   // by examples
	fixed    *node  // the value that is sent; nil if calls set it
	choice   string // NAME=VALUE, as messages show it
	line     string // what is written of it, if it describes no members: see share
	*definition
}

type request struct {
	as       string // "" for JSON
	required bool
	form     string // form_style
	from     string // body_from
	kind     string // Content-Type, if it is not that of as
	fixed    []pair // further headers, each with the value that the document demands
}

type response struct {
	as, accept string
	schema     *definition // of a JSON answer; nil if it is not described
}

// mapper maps one operation.
type mapper struct {
	doc        *Document
	raw        *rawOperation
	op         *operation
	prefix     string // of the path: what the operation's server has beyond base_url
	base       *target
	steps      int
	limit      int // of steps
	members    int // definitions
	deep       int // definitions that are not among members: they are deeper than others, but needed
	beyond     int // how many maps that are deeper than others the value at hand is in
	levels     int // depth to which members of objects are described
	describing int // characters of a description
	stack      []*node
	endless    bool
	answering  bool    // the schemas are those of answers
	subtypes   int     // of which objects the members of subtypes are described
	inside     int     // how many definitions of values the schema at hand is in
	grown      bool    // members of subtypes are described
	composing  []*node // the schemas whose allOf is merged
	outlines   map[*node]*definition
}

func (m *mapper) find(class Class, what, do string) { m.findAt(m.raw.node, class, what, do) }

// findAt is find for something at another place of the document than the operation.
func (m *mapper) findAt(at *node, class Class, what, do string) {
	same := func(f Finding) bool { return f.Class == class && f.What == what }
	if len(m.op.findings) < maxFindings && !slices.ContainsFunc(m.op.findings, same) {
		m.op.findings = append(m.op.findings, Finding{Place: m.doc.place(at), Class: class, What: what, Do: do})
	}
}

// said reports what is wrong with a schema of a request.
func (m *mapper) said(n *node, what, do string) {
	if !m.answering {
		m.findAt(n, Weaker, what, do)
	}
}

// unreadable reports a schema whose reference leads nowhere.
func (m *mapper) unreadable(n *node, err error) {
	m.said(n, "a schema cannot be read, and any value is accepted: "+unread(n, err).Error(), "")
}

// weak reports that the file accepts more than the document, or lacks something optional.
func (m *mapper) weak(what string) { m.find(Weaker, what, "") }

// drop reports that the operation cannot be expressed.
func (m *mapper) drop(what, do string) {
	m.op.dropped = true
	m.op.findings = nil
	m.find(Dropped, what, do)
}

// mapping makes maps_to of a path and its placeholders. names are the names of the
// parameters by those in the path; prefixes are texts in front of a placeholder.
func (m *mapper) mapping(path string, names, prefixes map[string]string) bool {
	path = m.prefix + path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var b strings.Builder
	for rest := path; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, more, closed := strings.Cut(after, "}")
		if !closed || names[name] == "" {
			m.drop("its path has braces that are no placeholder", "")
			return false
		}
		b.WriteString(prefixes[name] + "{" + names[name] + "}")
		rest = more
	}
	m.op.mapsTo = m.raw.method + " " + b.String()
	if err := file.CheckMapping(m.op.mapsTo); err != nil {
		m.drop("its path is not valid: "+short(err.Error()), "")
		return false
	}
	return true
}

// definition says which values a parameter, an element or a member may have, as adapter files
// write it.
type definition struct {
	typ         string
	also        []string
	description string
	format      string
	pattern     string
	enum        []*node
	min, max    string
	minLen      int // -1 for none
	maxLen      int
	minOpen     bool // min is itself not valid
	maxOpen     bool
	minItems    int // 0 for none
	maxItems    int
	unique      bool
	step        string
	items       *definition
	props       []property
	tag         string    // object: the member that says which of the variants it is
	variants    []variant // object
	sensitive   bool
	examples    []*node     // not written
	fallback    string      // the default; only in the description
	values      *definition // object: of members that are not described
	closed      bool        // object: it has no other members
	line        string      // of an outline that is complete: what flow writes
}

// may reports whether values may be of a type.
func (d *definition) may(typ string) bool { return d.typ == typ || slices.Contains(d.also, typ) }

// variant is one of the forms that an object has, by the value of its tag.
type variant struct {
	value    string
	members  []string // that not all variants have
	required []string
}

type property struct {
	name     string
	required bool
	needed   bool // by examples
	*definition
}

// paging is the pagination block of an operation.
type paging struct {
	style, position, size string
	items, next, total    string
	limit, most           int
	start                 int // 1 for the default
}
