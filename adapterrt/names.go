package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// What the rooms below say that callers of a [Runtime] need as well.
type (
	Source    = file.Source
	Problem   = file.Problem
	LoadError = file.LoadError
	Category  = file.Category
	Header    = file.Header
	Failure   = failure.Failure
	Notice    = failure.Notice
	Callback  = credential.Callback
)

// The severities of a [Problem].
const (
	Error   = file.Error
	Warning = file.Warning
)

// The categories, and the codes that callers act on.
const (
	AnyCategory = file.AnyCategory
	Create      = file.Create
	Read        = file.Read
	Update      = file.Update
	Delete      = file.Delete
	Execute     = file.Execute

	ConfirmationRequired = failure.ConfirmationRequired
)

// Find lists the adapter files of sources: files as they are, of directories those
// called *-adapter.md, by name. The problems are of sources that are none.
func Find(sources []Source) ([]string, []Problem) { return file.Find(sources) }

// CategoryOf is the category with that word in lower case.
func CategoryOf(word string) (Category, bool) { return file.CategoryOf(word) }

// TrustEnforcement says for which adapters trust levels count.
type TrustEnforcement = guard.TrustEnforcement

// The enforcements: for files with a trust block, for all, for none.
const (
	TrustDeclared = guard.TrustDeclared
	TrustStrict   = guard.TrustStrict
	TrustOff      = guard.TrustOff
)

// ConfirmVia says how an operation is confirmed.
type ConfirmVia = guard.ConfirmVia

// The ways: the user where that is possible and a token elsewhere, a token, the user.
const (
	ConfirmAuto  = guard.ConfirmAuto
	ConfirmToken = guard.ConfirmToken
	ConfirmUser  = guard.ConfirmUser
)

// Mode says as which tools the operations are offered.
type Mode = present.Mode

// The modes. Semantic is a tool per category, Single one tool for all, All both.
const (
	Semantic = present.Semantic
	Single   = present.Single
	All      = present.All
)

// ParseMode is the mode of that word; crude is another one for semantic.
func ParseMode(word string) (Mode, error) { return present.ParseMode(word) }

// Introspection says how much is told of an operation.
type Introspection = present.Introspection

// The forms: all with parameters under both of their keys, under one, and the closed one
// of the specification.
const (
	IntrospectExtended = present.Extended
	IntrospectCompact  = present.Compact
	IntrospectStrict   = present.Strict
)

// ParseIntrospection is the form of that word.
func ParseIntrospection(word string) (Introspection, error) { return present.ParseIntrospection(word) }

// Starter is a commented adapter file for a new adapter of that name, which must
// be one that adapters may have.
func Starter(name string) string { return present.Starter(name) }
