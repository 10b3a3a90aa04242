package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
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
	PermissionDenied     = failure.PermissionDenied
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
