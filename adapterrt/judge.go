package adapterrt

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TrustEnforcement says for which adapters trust levels count.
type TrustEnforcement uint8

// The enforcements: for files with a trust block, for all (a file without one is
// untested), for none.
const (
	TrustDeclared TrustEnforcement = iota
	TrustStrict
	TrustOff
)

// policy is what the operator says of trust and confirmations.
type policy struct {
	enforcement        TrustEnforcement
	overrides          map[string]string // level by adapter name; it wins over the file's own word
	maxSelfDeclared    string            // the most a file may say of itself, "" for community_reviewed
	confirmDestructive bool              // confirm what is destructive by its category or name, too
	neverConfirm       bool              // confirm only what says that it needs to be
}

// judgement is what becomes of an operation.
type judgement struct {
	verdict  verdict
	required file.TrustLevel // the least that would let a denied operation run
	actual   file.TrustLevel
	code     failure.Code // of a denial
}

type verdict uint8

const (
	allow verdict = iota
	confirm
	deny
)

// matrix is what a level of trust may do at a level of danger.
var matrix = [...][5]verdict{
	file.Safe:        {deny, allow, allow, allow, allow},
	file.Reversible:  {deny, deny, allow, allow, allow},
	file.Destructive: {deny, deny, confirm, allow, allow},
	file.Dangerous:   {deny, deny, deny, confirm, allow},
	file.Forbidden:   {deny, deny, deny, deny, confirm},
}

// check finds a level that does not exist.
func (p *policy) check() error {
	if p.maxSelfDeclared != "" {
		if _, ok := file.ParseTrust(p.maxSelfDeclared); !ok {
			return fmt.Errorf("adapters: unknown trust level %q", p.maxSelfDeclared)
		}
	}
	for name, word := range p.overrides {
		if _, ok := file.ParseTrust(word); !ok {
			return fmt.Errorf("adapters: unknown trust level %q of %s", word, name)
		}
	}
	return nil
}

// effective is what counts for an adapter, and whether anything does. A file
// speaks for itself only up to a level; the operator's word wins.
func (p *policy) effective(a *file.Adapter) (file.Trust, bool) {
	t := a.Trust
	limit := file.Trust{Level: file.CommunityReviewed, Categories: file.Aliases["verified"].Categories}
	if p.maxSelfDeclared != "" {
		limit, _ = file.ParseTrust(p.maxSelfDeclared)
	}
	if t.Level > limit.Level {
		if t.Level = limit.Level; t.Categories != nil {
			t.Categories = limit.Categories
		}
	}
	if word, ok := p.overrides[a.Name]; ok {
		t, _ = file.ParseTrust(word)
	}
	switch p.enforcement {
	case TrustOff:
		return t, false
	case TrustStrict:
		return t, true
	}
	return t, t.Declared
}

// judge works out what becomes of an operation: the strictest rule wins.
func (p *policy) judge(op *file.Operation) (j judgement) {
	d := &op.Danger
	t, enforced := p.effective(op.Adapter)
	j.actual = t.Level
	if enforced {
		if j.verdict = matrix[d.Level][t.Level]; j.verdict == deny {
			j.code = failure.PermissionTrust
			if d.Level >= file.Destructive && t.Level > file.Untested {
				j.code = failure.PermissionDanger
			}
			for l := t.Level; l <= file.Certified && matrix[d.Level][l] == deny; l++ {
				j.required = l + 1
			}
		}
		if t.Categories != nil && !slices.Contains(t.Categories, op.Category) {
			j.verdict, j.code = deny, failure.PermissionTrust
			for _, word := range [...]string{"community", "verified", "official"} {
				if a := file.Aliases[word]; slices.Contains(a.Categories, op.Category) {
					j.required = max(j.required, a.Level)
					break
				}
			}
		}
	}
	bad := d.Level >= file.Destructive && !enforced && !p.neverConfirm && (d.Declared || p.confirmDestructive)
	if j.verdict == allow && (d.Confirm || bad) {
		j.verdict = confirm
	}
	return j
}

// denied is the failure for an operation that nobody may run.
func (j *judgement) denied(op *file.Operation) *failure.Failure {
	level := op.Danger.Level.String()
	f := &failure.Failure{
		Code:    j.code,
		Message: "Operation '" + op.Name + "' needs trust level " + j.required.String() + ", the adapter has " + j.actual.String(),
		Details: wire.Members(nil).Str("operation", op.Name).Str("required_trust", j.required.String()).
			Str("actual_trust", j.actual.String()).Str("danger_level", level).End(),
	}
	if j.code == failure.PermissionDanger {
		f.Message = "Operation '" + op.Name + "' is " + level + " and denied with trust level " + j.actual.String()
	}
	return f
}
