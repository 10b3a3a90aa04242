package openapi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// operation is an operation as an adapter file has it.
type operation struct {
	raw         *rawOperation
	name        string
	category    string
	mapsTo      string
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
	required bool
	needed   bool // by examples
	*definition
}

type request struct {
	as       string // "" for JSON
	required bool
	form     string // form_style
	from     string // body_from
	kind     string // Content-Type, if it is not that of as
}

type response struct{ as, accept string }

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
	levels     int // depth to which members of objects are described
	describing int // characters of a description
	stack      []*node
	endless    bool
}

// mapOperation maps an operation of the document. If its objects have too many members, it
// describes them less deep.
func (d *Document) mapOperation(raw *rawOperation, base *target) *operation {
	for levels := maxLevels; ; levels-- {
		m := &mapper{doc: d, raw: raw, base: base, levels: levels, limit: maxSteps}
		if d.steps > manySteps {
			m.limit = fewSteps
		}
		m.op = &operation{raw: raw, deprecated: raw.deprecated}
		m.all()
		d.steps += m.steps
		if m.members <= maxMembers || levels == 1 || m.op.dropped {
			if levels < maxLevels {
				m.weak("there are too many members in its objects: they are described to " + plural(levels, "level") + " only")
			}
			if m.endless {
				m.weak("its schemas are too large: a part of them is not checked")
			}
			return m.op
		}
	}
}

func (m *mapper) find(class Class, what, do string) {
	same := func(f Finding) bool { return f.Class == class && f.What == what }
	if len(m.op.findings) < maxFindings && !slices.ContainsFunc(m.op.findings, same) {
		m.op.findings = append(m.op.findings, Finding{Place: m.doc.place(m.raw.node), Class: class, What: what, Do: do})
	}
}

// weak reports that the file accepts more than the document, or lacks something optional.
func (m *mapper) weak(what string) { m.find(Weaker, what, "") }

// drop reports that the operation cannot be expressed.
func (m *mapper) drop(what, do string) {
	m.op.dropped = true
	m.op.findings = nil
	m.find(Dropped, what, do)
}

func (m *mapper) all() {
	raw, op := m.raw, m.op
	op.name = raw.nameOf()
	op.danger = raw.judge()
	op.category = op.danger.category
	if g := op.danger.guess; g != "" {
		m.find(Guessed, g, "check it")
	}
	op.description = prose(raw.summary, operationText)
	if op.description == "" {
		op.description = prose(raw.description, operationText)
	}
	if op.description == "" {
		words := strings.ReplaceAll(op.name, "_", " ")
		op.description = strings.ToUpper(words[:1]) + words[1:]
	}
	if len(raw.servers) > 0 && !m.server() {
		return
	}
	m.parameters()
	if !op.dropped {
		m.body()
	}
	if !op.dropped {
		m.answer()
		m.pages()
	}
}

// server checks that the operation's own server is below the adapter's base URL.
func (m *mapper) server() bool {
	for _, s := range m.raw.servers {
		u, err := m.doc.serverURL(s, m.base.vars)
		if err != nil {
			continue
		}
		if rest, ok := strings.CutPrefix(u, m.base.url); ok && (rest == "" || rest[0] == '/') {
			m.prefix = rest
			return true
		}
	}
	s := ""
	if u, err := url.Parse(m.raw.servers[0].str("url")); err == nil {
		s = short(u.String())
	}
	if m.base.given {
		m.weak("its own server, " + s + ", is not used, because another one was given")
		return true
	}
	m.drop("its server is "+s, "import it into a file of its own with --server")
	return false
}

// mapping makes maps_to of the path and its placeholders. names are the names of the
// parameters by those in the path; prefixes are texts in front of a placeholder.
func (m *mapper) mapping(names, prefixes map[string]string) bool {
	path := m.prefix + m.raw.path
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
	if strings.ContainsAny(path, "#") {
		m.drop("its path has a #, which is not sent", "")
		return false
	}
	if err := file.CheckMapping(m.op.mapsTo); err != nil {
		m.drop("its path is not valid: "+short(err.Error()), "")
		return false
	}
	return true
}
