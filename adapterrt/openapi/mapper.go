package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// mapOperation maps an operation of the document. If its objects have too many members, it
// describes them less deep.
func (d *Document) mapOperation(raw *rawOperation, base *target) *operation {
	levels, subtypes := maxLevels, allSubtypes
	for {
		m := &mapper{doc: d, raw: raw, base: base, levels: levels, subtypes: subtypes, limit: maxSteps}
		if d.steps > manySteps {
			m.limit = fewSteps
		}
		m.op = &operation{raw: raw, deprecated: raw.deprecated}
		m.all()
		d.steps += m.steps
		switch {
		case m.op.dropped:
		case m.grown && (m.members > maxMembers && subtypes > bodySubtypes || m.endless && subtypes > noSubtypes):
			subtypes--
			continue
		case m.members > maxMembers && levels > 1:
			levels--
			continue
		}
		if levels < maxLevels && !m.op.dropped {
			m.weak("there are too many members in its objects: they are described to " + plural(levels, "level") + " only")
		}
		if m.endless && !m.op.dropped {
			m.weak("its schemas are too large: a part of them is not checked")
		}
		return m.op
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
	op.anonymous = m.base.auth.kind != "none" && (raw.anonymous() || m.base.isWithout(raw))
	if ways := m.base.otherwise(raw); ways != "" {
		m.find(Guessed, "it needs another credential than this file has: "+short(ways), "import it into a file of its own with --include, if calls are refused")
	}
	if of := m.base.auth.scopesOf; of != nil && !op.anonymous {
		op.scopes = slices.DeleteFunc(of(raw), func(s string) bool { return !file.IsScope(s) })
	}
	if len(raw.servers) > 0 && !m.server() {
		return
	}
	m.parameters()
	if !op.dropped {
		m.body()
		m.bodyCredentials()
	}
	m.declaredType()
	if !op.dropped {
		m.choose()
		m.answer()
		m.pages()
	}
}
