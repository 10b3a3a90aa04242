// Package translate translates a message of one protocol revision into a message of another.
//
// The package maps bytes to bytes: it does no I/O, reads no clock and keeps no state between calls. Each
// revision is a [Step] from the one before, written as data in a file of its own: step_2025_03_26.go and the
// files of the later revisions read like the changelogs they implement. [NewTable] compiles the steps between
// every two revisions into one [Translator]. A message is therefore scanned once, visited once at the places
// that its rules name, and written once, however far apart the revisions are.
//
//	table, err := translate.NewTable(translate.Options{})
//	t := table.Between(translate.Lookup("2025-06-18"), translate.Lookup("2024-11-05"))
//	var m wire.Message
//	err = m.Scan(raw, t.Shape())         // checked, its places recorded
//	m.Method = wire.ToolsList            // of a response: what it answers
//	out, verdict, err := t.Rewrite(buf, &m)
//
// The caller passes what it knows of the session in the message ([wire.Facts], [wire.Message.Note]), and takes
// from the message what it has to remember. A translator serves both directions of traffic: a sampling request
// and a tool list from an older server take the same translator.
//
// Between a revision with a handshake and one without, some messages need facts from earlier messages. The
// caller passes the facts about client and server in [wire.Message.Stamp]. A message that cannot be translated
// on its own comes out with the verdict [wire.Local]; the caller, which has the state of the session, completes
// it. The actions of these rules are in era.go.
//
// [Translator.Explain] translates a copy of a message once more, and says which rule made which difference.
//
// To add a revision, add one step file, one entry in revision.go, and golden files.
// Read on in rule.go (what a rule is, and how rules are applied), step.go (the places where they are), plan.go (how rules
// are compiled), ops.go (the basic actions of rules) and package wire (how bytes are changed). contract.go offers the same
// translation as an adapter with a source revision, a target revision and three translate methods.
package translate
