package openapi

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

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

func (m *mapper) all() {
	raw, op := m.raw, m.op
	op.name = raw.named()
	op.findings = slices.Clone(raw.lost)
	if raw.unread != nil {
		m.drop("its body cannot be read: "+raw.unread.Error(), "")
		return
	}
	op.danger = raw.judge()
	op.category = op.danger.category
	if g := op.danger.guess; g != "" {
		m.find(Guessed, g, "check it")
	}
	words := strings.ReplaceAll(op.name, "_", " ")
	op.description = cmp.Or(m.doc.prose(raw.advice.description, operationText), m.doc.prose(raw.summary, operationText), m.doc.prose(raw.description, operationText), strings.ToUpper(words[:1])+words[1:])
	if len(raw.servers) > 0 && !m.server() {
		return
	}
	m.parameters()
	if !op.dropped {
		m.body()
	}
	if !op.dropped {
		m.choose()
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
