package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// The types of the packages below that callers of a [Runtime] need.
type (
	Source    = file.Source
	Problem   = file.Problem
	LoadError = file.LoadError
	Header    = file.Header
	Failure   = failure.Failure
	Notice    = failure.Notice
	Callback  = credential.Callback
)

// Error is the severity of a [Problem] that stops a file from being loaded.
const Error = file.Error

// The failure codes that callers act on.
const (
	ConfirmationRequired = failure.ConfirmationRequired
	ConnectionRefused    = failure.TransportRefused
	HostUnknown          = failure.TransportDNS
)

// Find returns the adapter files of sources: the files that sources name, and the files
// called *-adapter.md in the directories that they name, in the order of their names.
// It reports a problem for a source that cannot be read or is no adapter file.
func Find(sources []Source) ([]string, []Problem) { return file.Find(sources) }

// NoFiles says why there are no adapters in a directory that can be read.
const NoFiles = "there are no adapter files, which are called NAME-adapter.md"

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

// The ways to confirm an operation. ConfirmAuto asks the user if the client can do that
// and hands out a token otherwise, ConfirmToken always hands out a token, ConfirmUser
// always asks the user.
const (
	ConfirmAuto  = guard.ConfirmAuto
	ConfirmToken = guard.ConfirmToken
	ConfirmUser  = guard.ConfirmUser
)

// What decides together with other replicas, and what it is asked.
type (
	Replicas   = guard.Replicas
	Limit      = guard.Limit
	State      = guard.State
	Correction = guard.Correction
	Redeemed   = guard.Redeemed
)

// What becomes of a confirmation token that is redeemed.
const (
	TokenUnknown   = guard.Unknown
	TokenValid     = guard.Valid
	TokenUsed      = guard.Used
	TokenOfAnother = guard.OfAnother
)

// BreakerClosed is the state of a breaker, in [Record], that lets calls pass.
const BreakerClosed = guard.BreakerClosed

// Mode says how operations are grouped into tools.
type Mode = present.Mode

// The modes. Semantic is a tool per category, Single one tool for all, All both. Discrete is
// a tool per operation. Search is four tools: two that find operations and two that call
// them. Auto is Discrete for few operations and Search for more.
const (
	Semantic = present.Semantic
	Single   = present.Single
	All      = present.All
	Discrete = present.Discrete
	Search   = present.Search
	Auto     = present.Auto
)

// ParseMode returns the mode that word names; crude is a synonym of semantic.
func ParseMode(word string) (Mode, error) { return present.ParseMode(word) }

// Introspection says how much introspection returns about an operation.
type Introspection = present.Introspection

// The forms. IntrospectExtended lists parameters under both of their keys,
// IntrospectCompact under one of them, and IntrospectStrict is the form of the
// specification, whose schema is closed.
const (
	IntrospectExtended = present.Extended
	IntrospectCompact  = present.Compact
	IntrospectStrict   = present.Strict
)

// ParseIntrospection returns the form that word names.
func ParseIntrospection(word string) (Introspection, error) { return present.ParseIntrospection(word) }

// Starter returns a commented adapter file for a new adapter called name, which must be
// a valid adapter name.
func Starter(name string) string { return present.Starter(name) }
