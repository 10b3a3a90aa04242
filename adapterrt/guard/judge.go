package guard

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

// Policy is what the operator says of trust and confirmations.
type Policy struct {
	Enforcement        TrustEnforcement
	Overrides          map[string]string // level by adapter name; it wins over the file's own word
	MaxSelfDeclared    string            // the most a file may say of itself, "" for community_reviewed
	ConfirmDestructive bool              // confirm what is destructive by its category or name, too
}

// Judgement is what becomes of an operation.
type Judgement struct {
	verdict  Verdict
	required file.TrustLevel // the least that would let a denied operation run
	actual   file.TrustLevel
	code     failure.Code // of a denial
}

// Verdict is what becomes of a call.
type Verdict uint8

const (
	Allow Verdict = iota
	Confirm
	Deny
)

// matrix is what a level of trust may do at a level of danger.
var matrix = [...][5]Verdict{
	file.Safe:        {Deny, Allow, Allow, Allow, Allow},
	file.Reversible:  {Deny, Deny, Allow, Allow, Allow},
	file.Destructive: {Deny, Deny, Confirm, Allow, Allow},
	file.Dangerous:   {Deny, Deny, Deny, Confirm, Allow},
	file.Forbidden:   {Deny, Deny, Deny, Deny, Confirm},
}

// Validate finds a level that does not exist.
func (p *Policy) Validate() error {
	if p.MaxSelfDeclared != "" {
		if _, ok := file.ParseTrust(p.MaxSelfDeclared); !ok {
			return fmt.Errorf("adapters: unknown trust level %q", p.MaxSelfDeclared)
		}
	}
	for name, word := range p.Overrides {
		if _, ok := file.ParseTrust(word); !ok {
			return fmt.Errorf("adapters: unknown trust level %q of %s", word, name)
		}
	}
	return nil
}

// effective is what counts for an adapter, and whether anything does. A file
// speaks for itself only up to a level; the operator's word wins.
func (p *Policy) effective(a *file.Adapter) (file.Trust, bool) {
	t := a.Trust
	limit := file.Trust{Level: file.CommunityReviewed, Categories: file.Aliases["verified"].Categories}
	if p.MaxSelfDeclared != "" {
		limit, _ = file.ParseTrust(p.MaxSelfDeclared)
	}
	if t.Level > limit.Level {
		if t.Level = limit.Level; t.Categories != nil {
			t.Categories = limit.Categories
		}
	}
	if word, ok := p.Overrides[a.Name]; ok {
		t, _ = file.ParseTrust(word)
	}
	switch p.Enforcement {
	case TrustOff:
		return t, false
	case TrustStrict:
		return t, true
	}
	return t, t.Declared
}

// judge works out what becomes of an operation: the strictest rule wins.
func (p *Policy) judge(op *file.Operation) (j Judgement) {
	d := &op.Danger
	t, enforced := p.effective(op.Adapter)
	j.actual = t.Level
	if enforced {
		if j.verdict = matrix[d.Level][t.Level]; j.verdict == Deny {
			j.code = failure.PermissionTrust
			if d.Level >= file.Destructive && t.Level > file.Untested {
				j.code = failure.PermissionDanger
			}
			for l := t.Level; l <= file.Certified && matrix[d.Level][l] == Deny; l++ {
				j.required = l + 1
			}
		}
		if t.Categories != nil && !slices.Contains(t.Categories, op.Category) {
			j.verdict, j.code = Deny, failure.PermissionTrust
			for _, word := range [...]string{"community", "verified", "official"} {
				if a := file.Aliases[word]; slices.Contains(a.Categories, op.Category) {
					j.required = max(j.required, a.Level)
					break
				}
			}
		}
	}
	// That a file speaks of danger has all that destroys confirmed where nobody says how
	// far the file is trusted. Where somebody does, the matrix decides: allow is "without
	// additional gates". The operator's word counts beside both.
	bad := d.Level >= file.Destructive && (p.ConfirmDestructive || op.Adapter.DeclaresDanger && !enforced)
	if j.verdict == Allow && (d.Confirm || bad) {
		j.verdict = Confirm
	}
	return j
}

// denied is the failure for an operation that no caller may run.
func (j *Judgement) denied(op *file.Operation) *failure.Failure {
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
