package adapterrt

import (
	"fmt"
	"path"
	"slices"
	"strings"

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

// trustLevel is how far an adapter is trusted, the least first.
type trustLevel uint8

const (
	untested trustLevel = iota
	generated
	validated
	communityReviewed
	certified
)

var trustNames = [...]string{"untested", "generated", "validated", "community_reviewed", "certified"}

func (l trustLevel) String() string { return trustNames[l] }

// aliases are the words of the runtime's first draft. Under those a category may
// be out of reach whatever its danger.
var aliases = map[string]struct {
	level      trustLevel
	categories []Category
}{
	"generated": {generated, []Category{Read}},
	"community": {validated, []Category{Read, Create}},
	"verified":  {communityReviewed, []Category{Read, Create, Update, Execute}},
	"official":  {certified, []Category{Create, Read, Update, Delete, Execute}},
}

// trust is what a file, or the operator, says of an adapter.
type trust struct {
	declared   bool
	level      trustLevel
	categories []Category // nil for all
	about      []byte     // what the file says of its trust, as JSON; shown, not verified
}

// parseTrust reads a level by any of its names.
func parseTrust(word string) (trust, bool) {
	if a, ok := aliases[word]; ok {
		return trust{declared: true, level: a.level, categories: a.categories}, true
	}
	i := slices.Index(trustNames[:], word)
	return trust{declared: true, level: trustLevel(max(i, 0))}, i >= 0
}

func (c *checker) trust(root *node, a *Adapter) {
	n := c.get(root, "", "trust", wire.Object)
	if n == nil {
		return
	}
	c.known(n, "trust", "level", "verified_by", "verified_at", "validation_report", "promotion_history", "certification")
	word, v := c.need(n, "trust", "level", "Trust level")
	if v == nil {
		return
	}
	t, ok := parseTrust(word)
	if !ok {
		hint := ""
		if slices.Contains([]string{"untrusted", "low", "medium", "high"}, word) {
			hint = "; this is a word of another vocabulary"
		}
		c.wrong(SchemaInvalidValue, "trust.level", "trust level is unknown"+hint, strings.Join(trustNames[:], ", ")+", community, verified, official", v, 0)
		return
	}
	t.about = n.shown()
	a.trust = t
}

// dangerLevel is how bad an operation can turn out, the least first.
type dangerLevel uint8

const (
	safe dangerLevel = iota
	reversible
	destructive
	dangerous
	forbidden
)

var dangerNames = [...]string{"safe", "reversible", "destructive", "dangerous", "forbidden"}

func (l dangerLevel) String() string { return dangerNames[l] }

// Names that speak of danger, when a file does not.
var (
	dangerousNames = []string{"force_*", "*_permanently", "bulk_delete*", "override_*", "bypass_*", "*_without_backup", "purge_*"}
	forbiddenNames = []string{"drop_*", "delete_all*", "truncate_*", "reset_*", "destroy_*", "wipe_*", "*_production"}
)

// danger is what is known of an operation's, and what that comes to.
type danger struct {
	level    dangerLevel
	declared bool
	confirm  bool // requires_confirmation
	cooldown int  // seconds between two runs
	message  string
	reasons  []string
	verdict  verdict
	required trustLevel // the least that would let a denied operation run
	actual   trustLevel
	code     Code // of a denial
}

type verdict uint8

const (
	allow verdict = iota
	confirm
	deny
)

// matrix is what a level of trust may do at a level of danger.
var matrix = [...][5]verdict{
	safe:        {deny, allow, allow, allow, allow},
	reversible:  {deny, deny, allow, allow, allow},
	destructive: {deny, deny, confirm, allow, allow},
	dangerous:   {deny, deny, deny, confirm, allow},
	forbidden:   {deny, deny, deny, deny, confirm},
}

func (c *checker) danger(n *node, path string, op *operation) {
	d := &op.danger
	flat := c.dangerWord(n, path, "danger_level")
	d.confirm = c.flag(n, path, "requires_confirmation", false)
	nested := -1
	if b := c.get(n, path, "danger", wire.Object); b != nil {
		at := path + ".danger"
		c.known(b, at, "level", "requires_confirmation", "cooldown_seconds", "confirmation_message", "reasons")
		nested = c.dangerWord(b, at, "level")
		d.confirm = c.flag(b, at, "requires_confirmation", d.confirm)
		d.cooldown = c.whole(b, at, "cooldown_seconds", 0, 0, 86_400)
		d.message = cleanText(c.str(b, at, "confirmation_message"), 300)
		for _, r := range c.strs(b, at, "reasons") {
			d.reasons = append(d.reasons, cleanText(r, 200))
		}
	}
	if flat >= 0 && nested >= 0 && flat != nested {
		c.wrong(SchemaInvalidValue, path+".danger.level", "danger.level and danger_level differ", dangerNames[flat], n.get("danger").get("level"), 0)
	}
	if l := max(flat, nested); l >= 0 {
		d.declared, d.level = true, dangerLevel(l)
		return
	}
	switch op.category {
	case Read:
		d.level = safe
	case Delete:
		d.level = destructive
	default:
		d.level = reversible
	}
	if anyMatch(dangerousNames, op.name) {
		d.level = dangerous
	}
	if anyMatch(forbiddenNames, op.name) {
		d.level = forbidden
	}
}

// dangerWord is the index of a level's name, -1 when it is not given.
func (c *checker) dangerWord(n *node, path, key string) int {
	if n.get(key) == nil {
		return -1
	}
	return slices.Index(dangerNames[:], c.word(n, path, key, dangerNames[:]...))
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// checkTrust checks what the operator says of trust.
func (o *Options) checkTrust() error {
	if o.MaxSelfDeclared != "" {
		if _, ok := parseTrust(o.MaxSelfDeclared); !ok {
			return fmt.Errorf("adapters: unknown trust level %q", o.MaxSelfDeclared)
		}
	}
	for name, word := range o.TrustOverrides {
		if _, ok := parseTrust(word); !ok {
			return fmt.Errorf("adapters: unknown trust level %q of %s", word, name)
		}
	}
	return nil
}

// effectiveTrust is what counts for an adapter, and whether anything does. A file
// speaks for itself only up to a level; the operator's word wins.
func (a *Adapter) effectiveTrust(opt *Options) (trust, bool) {
	t := a.trust
	limit := trust{level: communityReviewed, categories: aliases["verified"].categories}
	if opt.MaxSelfDeclared != "" {
		limit, _ = parseTrust(opt.MaxSelfDeclared)
	}
	if t.level > limit.level {
		if t.level = limit.level; t.categories != nil {
			t.categories = limit.categories
		}
	}
	if word, ok := opt.TrustOverrides[a.Name]; ok {
		t, _ = parseTrust(word)
	}
	switch opt.TrustEnforcement {
	case TrustOff:
		return t, false
	case TrustStrict:
		return t, true
	}
	return t, t.declared
}

// judge works out what becomes of an operation: the strictest rule wins.
func (op *operation) judge(opt *Options) {
	d := &op.danger
	t, enforced := op.adapter.effectiveTrust(opt)
	d.verdict, d.actual = allow, t.level
	if enforced {
		if d.verdict = matrix[d.level][t.level]; d.verdict == deny {
			d.code = PermissionTrust
			if d.level >= destructive && t.level > untested {
				d.code = PermissionDanger
			}
			for l := t.level; l <= certified && matrix[d.level][l] == deny; l++ {
				d.required = l + 1
			}
		}
		if t.categories != nil && !slices.Contains(t.categories, op.category) {
			d.verdict, d.code = deny, PermissionTrust
			for _, word := range [...]string{"community", "verified", "official"} {
				if a := aliases[word]; slices.Contains(a.categories, op.category) {
					d.required = max(d.required, a.level)
					break
				}
			}
		}
	}
	bad := d.level >= destructive && !enforced && !opt.NeverConfirm && (d.declared || opt.ConfirmDestructive)
	if d.verdict == allow && (d.confirm || bad) {
		d.verdict = confirm
	}
}

// denied is the failure for an operation that nobody may run.
func (op *operation) denied() *Failure {
	d := &op.danger
	f := &Failure{
		Code:    d.code,
		Message: "Operation '" + op.name + "' needs trust level " + d.required.String() + ", the adapter has " + d.actual.String(),
		Details: wire.Members(nil).Str("operation", op.name).Str("required_trust", d.required.String()).
			Str("actual_trust", d.actual.String()).Str("danger_level", d.level.String()).End(),
	}
	if d.code == PermissionDanger {
		f.Message = "Operation '" + op.name + "' is " + d.level.String() + " and denied with trust level " + d.actual.String()
	}
	return f
}
