package file

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Parse checks and compiles one adapter file. file is the file name that the problems
// name. The adapter is nil if one of the problems is an error.
func Parse(file string, data []byte, opt *Options) (a *Adapter, problems []Problem) {
	a, _, problems = ParseDecoded(file, data, opt)
	return a, problems
}

// ParseDecoded is [Parse] for a caller that needs the front matter as YAML, too. doc is its first value.
func ParseDecoded(file string, data []byte, opt *Options) (a *Adapter, doc *yaml.Node, problems []Problem) {
	defer func() {
		if p := recover(); p != nil {
			a, problems = nil, []Problem{{Message: "file cannot be parsed: internal error", Code: SchemaParseError, Severity: Error, File: file}}
		}
	}()
	c := &checker{file: file, opt: opt}
	front, body, err := splitFrontMatter(data)
	if err != nil {
		c.wrong(SchemaParseError, "", err.Error(), "", nil, 1)
		c.problems[0].Received = ""
		return nil, nil, c.problems
	}
	doc, root, err := parseYAML(front)
	if err != nil {
		p := c.add(Error, SchemaParseError, "", err.Error(), 0)
		var y *YAMLError
		if errors.As(err, &y) {
			p.Line = y.Line
		}
		return nil, nil, c.problems
	}
	a = c.adapter(root)
	slices.SortStableFunc(c.problems, func(p, q Problem) int { return p.Line - q.Line })
	if HasError(c.problems) {
		return nil, nil, c.problems
	}
	a.Documentation = string(body)
	a.Digest = sha256.Sum256(data)
	return a, doc, c.problems
}

// splitFrontMatter splits an adapter file into its YAML and the documentation after it. Both
// point into data.
func splitFrontMatter(data []byte) (front, body []byte, err error) {
	if len(data) > MaxFile {
		return nil, nil, errTooLarge
	}
	if !utf8.Valid(data) {
		return nil, nil, errors.New("file is not valid UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if !isDelimiter(line) {
		return nil, nil, errors.New("front matter must start with --- on line 1")
	}
	front = rest
	for n := 0; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if isDelimiter(line) {
			return front[:n:n], rest, nil
		}
		n = len(front) - len(rest)
	}
	return nil, nil, errors.New("front matter is not closed by a line of ---")
}

func isDelimiter(line []byte) bool {
	return string(bytes.TrimRight(line, " \t\r")) == "---"
}

// semVer: https://semver.org/#is-there-a-suggested-regular-expression-regex-to-check-a-semver-string
var semVer = pattern.Later(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$`)

var isoDate = pattern.Later(`^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[Tt ]([01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$`)

// shortDescription and longDescription are the recommended smallest and largest number of
// characters in an adapter's description.
const shortDescription, longDescription = 10, 200

var adapterBlock = block{top, "", []key{
	{"name", "string", must, "The adapter's name: 2–64 characters of a-z, 0-9 and -, beginning with a letter, not ending with -. The file is called `NAME-adapter.md`."},
	{"type", "adapter", must, "The word adapter."},
	{"version", "string", must, "The version of the file, as MAJOR.MINOR.PATCH, in quotes."},
	{"description", "string", must, "What the API is for, in 10–200 characters. The model reads it."},
	{"target", "map", must, "Where the API is."},
	{"operations", "map", must, "What clients can call."},
	{"auth", "map", "", "Where the credentials of the API are. Without it, requests carry none."},
	{"trust", "map", "", "How far the file is trusted."},
	{"rate_limits", "map", "", "How often the API may be called."},
	{"breaker", "map", "", "When an API that fails is not called for a while. Without it, never."},
	{"error_mapping", "list of maps", "", "What answers of the API mean, for all operations."},
	{"transform", "map", "", "How results of the operations are shortened: the keys of a [rule](configuration.md#transformrules), without `match`. It applies where no rule of the configuration names the operation."},
	{"types", "list of maps", "", "Types for `response.type`, which introspection shows."},
	{"presets", "map", "", "Names for lists of dotted paths, which calls of operations with `supports_fields` may select by `preset`."},
	{"author", "string", "", "Who wrote the file. Introspection shows this and the next three keys."},
	{"tags", "list of strings", "", "Words under which introspection and searches list the operations."},
	{"triggers", "list of strings", "", "Further words about the API."},
	{"created", "string", "", "The date or time, in ISO 8601."},
	{"modified", "string", "", ""},
}}

// laterKeys are keys of the specification that this runtime does not support.
var laterKeys = block{keys: []key{{name: "error_codes"}, {name: "shared_parameters"}}}

// adapter checks and compiles the whole front matter.
func (c *checker) adapter(root *node) *Adapter {
	if root.kind != wire.Object {
		c.wrong(SchemaParseError, "", "front matter must be a map", "map", root, 0)
		return nil
	}
	a := &Adapter{File: c.file, Index: map[string]*Operation{}}
	c.misspelt(root, "", []string{"trust"}, &adapterBlock, &laterKeys, &elsewhere)
	c.later(root, "", names([]*block{&laterKeys})...)
	a.errors = c.errorRules(root, "")
	c.secrets(root, "")

	if name, n := c.need(root, "", "name", "Adapter name"); n != nil {
		a.Name = name
		if !IsAdapterName(name) {
			c.wrong(SchemaInvalidName, "name", "Adapter name is not valid", AdapterNameRule, n, 0)
		} else if c.file != "" && filepath.Base(c.file) != name+"-adapter.md" {
			c.mind(SchemaInvalidName, "name", "file should be called "+name+"-adapter.md", n.line)
		}
	}
	if typ, n := c.need(root, "", "type", "Type"); n != nil && typ != "adapter" {
		c.wrong(SchemaInvalidValue, "type", "type must be adapter", "adapter", n, 0)
	}
	if v := root.get("version"); v != nil && v.kind == wire.Number {
		c.wrong(SchemaInvalidType, "version", `version must be a string: quote it, "1.0.0"`, "string", v, 0)
	} else if version, n := c.need(root, "", "version", "Version"); n != nil {
		if a.Version = version; len(version) > 256 || !semVer().MatchString(version) {
			c.wrong(SchemaInvalidValue, "version", "version is not a semantic version", "MAJOR.MINOR.PATCH as of semver.org", n, 0)
		}
	}
	if d, n := c.need(root, "", "description", "Description"); n != nil {
		a.Description = clean.Text(d, descriptionRunes)
		if l := utf8.RuneCountInString(strings.TrimSpace(d)); l < shortDescription || l > longDescription {
			c.warn(SchemaInvalidValue, "description", fmt.Sprintf("description should have %d–%d characters, it has %d", shortDescription, longDescription, l), n.line)
		}
	}
	a.Author = c.str(root, "", "author")
	a.Tags = c.strs(root, "", "tags")
	a.Triggers = c.strs(root, "", "triggers")
	a.Created = c.date(root, "created")
	a.Modified = c.date(root, "modified")
	c.target(root, &a.Target)
	c.auth(root, &a.Auth)
	c.secretHeaders(root, &a.Auth)
	c.templates(root.get("target"), "target")
	c.templates(root.get("auth"), "auth")
	c.overHTTPS(&a.Auth, &a.Target, root.get("target").lineOr(0))
	if a.Auth.Mutual != nil && len(a.Target.Redirects.Hosts) > 0 {
		c.wrong(AuthConfigInvalid, "target.redirects", "a client certificate would be shown to other hosts", "same_origin", nil, root.get("target").line)
	}
	a.Limits = c.limits(root, "")
	a.Breaker = c.breaker(root)
	a.Trust = c.trust(root)
	a.Presets = c.presets(root)
	a.Declared = c.types(root)
	a.transform = c.transform(root, "")
	c.operations(root, a)
	if c.notOurs(root, "") {
		a.DeclaresDanger = true
		for _, op := range a.Operations {
			op.Danger.Confirm = op.Danger.Confirm || op.Category != Read
		}
	}
	return a
}

func (c *checker) date(root *node, key string) string {
	v := c.get(root, "", key, wire.String)
	if v == nil {
		return ""
	}
	if !isoDate().MatchString(v.text) {
		c.warn(SchemaInvalidValue, key, key+" is not an ISO 8601 date", v.line)
	}
	return v.text
}
