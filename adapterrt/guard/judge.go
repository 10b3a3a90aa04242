package guard

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TrustEnforcement says for which adapters trust levels are enforced.
type TrustEnforcement uint8

// TrustDeclared enforces trust levels for files with a trust block, TrustStrict for all
// files (a file without a trust block is untested), TrustOff for none.
const (
	TrustDeclared TrustEnforcement = iota
	TrustStrict
	TrustOff
)

// Policy is the operator's configuration of trust and confirmations.
type Policy struct {
	Enforcement        TrustEnforcement
	Overrides          map[string]string // level by adapter name; it replaces the level that the file declares
	MaxSelfDeclared    string            // the highest level that a file may declare, "" for community_reviewed
	ConfirmDestructive bool              // also confirm operations that are destructive by their category or name
}

// Judgement is the verdict on an operation, with the reason for a denial.
type Judgement struct {
	verdict  Verdict
	required file.TrustLevel // the lowest level with which a denied operation could run
	actual   file.TrustLevel
	code     failure.Code // of a denial
}

// Verdict is the decision on the calls of an operation: allow them, require confirmation, or
// deny them.
type Verdict uint8

const (
	Allow Verdict = iota
	Confirm
	Deny
)

// matrix holds the verdict by level of danger and level of trust.
var matrix = [...][5]Verdict{
	file.Safe:        {Deny, Allow, Allow, Allow, Allow},
	file.Reversible:  {Deny, Deny, Allow, Allow, Allow},
	file.Destructive: {Deny, Deny, Confirm, Allow, Allow},
	file.Dangerous:   {Deny, Deny, Deny, Confirm, Allow},
	file.Forbidden:   {Deny, Deny, Deny, Deny, Confirm},
}

// Validate returns an error if the policy names a trust level that does not exist.
func (p *Policy) Validate() error {
	if p.MaxSelfDeclared != "" {
		if _, ok := file.ParseTrust(p.MaxSelfDeclared); !ok {
			return fmt.Errorf("adapters.trust.max_self_declared: unknown trust level %q", p.MaxSelfDeclared)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Overrides)) {
		if _, ok := file.ParseTrust(p.Overrides[name]); !ok {
			return fmt.Errorf("adapters.trust.overrides.%s: unknown trust level %q", name, p.Overrides[name])
		}
	}
	return nil
}

// effective returns the trust of an adapter, and whether it is enforced. The level that a
// file declares counts only up to a limit; the operator's override replaces it.
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

// judge returns the judgement of an operation. The strictest rule wins.
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
	// If a file declares danger levels and no trust is enforced, its destructive operations
	// need a confirmation. If trust is enforced, the matrix decides: allow is "without
	// additional gates". ConfirmDestructive applies in both cases.
	bad := d.Level >= file.Destructive && (p.ConfirmDestructive || op.Adapter.DeclaresDanger && !enforced)
	if j.verdict == Allow && (d.Confirm || bad) {
		j.verdict = Confirm
	}
	return j
}

// denied returns the failure for an operation that no caller may run.
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
