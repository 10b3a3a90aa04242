package file

import (
	"path"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TrustLevel says how far an adapter is trusted. The lowest level is the first.
type TrustLevel uint8

const (
	Untested TrustLevel = iota
	generated
	validated
	CommunityReviewed
	Certified
)

var trustNames = [...]string{"untested", "generated", "validated", "community_reviewed", "certified"}

func (l TrustLevel) String() string { return trustNames[l] }

// Aliases are the trust levels of the runtime's first draft. They also restrict the
// categories of operations, whatever the danger of an operation is.
var Aliases = map[string]struct {
	Level      TrustLevel
	Categories []Category
}{
	"generated": {generated, []Category{Read}},
	"community": {validated, []Category{Read, Create}},
	"verified":  {CommunityReviewed, []Category{Read, Create, Update, Execute}},
	"official":  {Certified, []Category{Create, Read, Update, Delete, Execute}},
}

// Trust is the trust in an adapter that its file or the operator declares.
type Trust struct {
	Declared   bool
	Level      TrustLevel
	Categories []Category // nil for all
	About      []byte     // the file's trust block as JSON; it is shown, but not verified
}

// ParseTrust returns the trust that word, a trust level or one of [Aliases], names. It
// returns false if there is no such name.
func ParseTrust(word string) (Trust, bool) {
	if a, ok := Aliases[word]; ok {
		return Trust{Declared: true, Level: a.Level, Categories: a.Categories}, true
	}
	i := slices.Index(trustNames[:], word)
	return Trust{Declared: true, Level: TrustLevel(max(i, 0))}, i >= 0
}

var trustBlock = block{"trust", "How far the file is trusted. Which operations that allows, the operator decides (`adapters.trust`).", []key{
	{"level", "untested, generated, validated, community_reviewed, certified, community, verified, official", must, "The level. `adapters.trust.max_self_declared` is the highest that counts. generated, community, verified and official also say which categories are allowed."},
	{"verified_by", "any", "", "Shown by introspection, like all further keys here, and not verified."},
	{"verified_at", "any", "", ""},
	{"validation_report", "any", "", ""},
	{"promotion_history", "any", "", ""},
	{"certification", "any", "", ""},
}}

func (c *checker) trust(root *node) (t Trust) {
	n := c.get(root, "", "trust", wire.Object)
	if n == nil {
		return t
	}
	c.only(n, "trust", &trustBlock)
	word, v := c.need(n, "trust", "level", "Trust level")
	if v == nil {
		return t
	}
	t, ok := ParseTrust(word)
	if !ok {
		hint := ""
		if slices.Contains([]string{"untrusted", "low", "medium", "high"}, word) {
			hint = "; this is a word of another vocabulary"
		}
		c.wrong(SchemaInvalidValue, "trust.level", "trust level is unknown"+hint, strings.Join(trustNames[:], ", ")+", community, verified, official", v, 0)
		return t
	}
	t.About = n.shown()
	return t
}

// DangerLevel says how much harm an operation can do. The lowest level is the first.
type DangerLevel uint8

const (
	Safe DangerLevel = iota
	Reversible
	Destructive
	Dangerous
	Forbidden
)

var dangerNames = [...]string{"safe", "reversible", "destructive", "dangerous", "forbidden"}

func (l DangerLevel) String() string { return dangerNames[l] }

// Patterns of operation names that imply a danger level, if the file declares none.
var (
	dangerousNames = []string{"force_*", "*_permanently", "bulk_delete*", "override_*", "bypass_*", "*_without_backup", "purge_*"}
	forbiddenNames = []string{"drop_*", "delete_all*", "truncate_*", "reset_*", "destroy_*", "wipe_*", "*_production"}
)

// Danger is the danger of an operation, as the file declares it or as its name and category
// imply it.
type Danger struct {
	Level    DangerLevel
	Declared bool // the file says something of the danger, be it by a key of another runtime
	Confirm  bool // requires_confirmation
	Cooldown int  // seconds between two runs
	Message  string
	Reasons  []string
}

var dangerBlock = block{"operations.CATEGORY[].danger", "", []key{
	{"level", "safe, reversible, destructive, dangerous, forbidden", "", "How much harm the operation can do. Without it, the category and the name decide: delete is destructive, a name such as `purge_*` dangerous, `drop_*` forbidden."},
	{"requires_confirmation", "boolean", "false", "The operation is carried out only after a confirmation."},
	{"cooldown_seconds", "integer 0–86400", "0", "Seconds between two calls."},
	{"confirmation_message", "string", "", "What the user is asked, up to 300 characters."},
	{"reasons", "list of strings", "", "Why it is dangerous; shown with the question."},
}}

// danger reads the danger of the operation n, which has that category and name.
func (c *checker) danger(n *node, path string, category Category, name string) (d Danger) {
	foreign := c.notOurs(n, path)
	flat := c.dangerWord(n, path, "danger_level")
	d.Confirm = c.flag(n, path, "requires_confirmation", false)
	nested := -1
	if b := c.get(n, path, "danger", wire.Object); b != nil {
		at := path + ".danger"
		c.only(b, at, &dangerBlock, &elsewhere)
		foreign = c.notOurs(b, at) || foreign
		nested = c.dangerWord(b, at, "level")
		d.Confirm = c.flag(b, at, "requires_confirmation", d.Confirm)
		d.Cooldown = c.whole(b, at, "cooldown_seconds", 0, 0, 86_400)
		d.Message = clean.Text(c.str(b, at, "confirmation_message"), 300)
		for _, r := range c.strs(b, at, "reasons") {
			d.Reasons = append(d.Reasons, clean.Text(r, 200))
		}
	}
	if flat >= 0 && nested >= 0 && flat != nested {
		c.wrong(SchemaInvalidValue, path+".danger.level", "danger.level and danger_level differ", dangerNames[flat], n.get("danger").get("level"), 0)
	}
	d.Confirm = d.Confirm || foreign
	d.Declared = foreign || slices.ContainsFunc([]string{"danger_level", "danger", "requires_confirmation"}, n.has)
	if l := max(flat, nested); l >= 0 {
		d.Level = DangerLevel(l)
		return d
	}
	switch category {
	case Read:
		d.Level = Safe
	case Delete:
		d.Level = Destructive
	default:
		d.Level = Reversible
	}
	if anyMatch(dangerousNames, name) {
		d.Level = Dangerous
	}
	if anyMatch(forbiddenNames, name) {
		d.Level = Forbidden
	}
	return d
}

// dangerWord returns the index of a danger level's name, or -1 if the key is absent.
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

// elsewhere are safety keys of other runtimes, which this one does not support. An operation
// or file that has one of them needs confirmation instead, as the closest protection. They count as declared danger:
// in a file whose author has thought of it, the other destructive operations need confirmation, too.
var elsewhere = block{keys: []key{{name: "approval"}, {name: "escalation"}, {name: "operation_overrides"}}}

// notOurs warns of the keys in elsewhere and reports whether there is one.
func (c *checker) notOurs(n *node, path string) (any bool) {
	for _, k := range elsewhere.keys {
		if v := n.get(k.name); v != nil {
			c.warn(SchemaUnknownField, join(path, k.name), k.name+" is not supported; the operations that it applies to need confirmation instead", v.line)
			any = true
		}
	}
	return any
}
