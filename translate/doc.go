// Package translate turns a message of one protocol revision into another's.
//
// Bytes in, bytes out: no I/O, no clock, nothing remembered between calls. Each
// revision is a [Step] from the one before, written as data in a file of its own:
// step_2025_03_26.go and its younger siblings read like the changelogs they
// implement. [NewTable] lays the steps between every two revisions out as one
// [Translator], so that a message is scanned once, walked once over what its rules
// speak of, and written once, however far apart the revisions are.
//
//	table, err := translate.NewTable(translate.Options{})
//	t := table.Between(translate.Lookup("2025-06-18"), translate.Lookup("2024-11-05"))
//	var m wire.Message
//	err = m.Scan(raw, t.Shape())         // checked, its places recorded
//	m.Method = wire.ToolsList            // of a response: what it answers
//	out, verdict, err := t.Rewrite(buf, &m)
//
// What must be known of the connection comes in with the message ([wire.Facts],
// [wire.Message.Note]); what must be remembered goes out with it. The two
// directions of traffic are no different here: a sampling request from an older
// server and a tool list from it take the same translator.
//
// Between a revision with a handshake and one without, some messages need what
// others said before: who the two ends are comes in as [wire.Message.Stamp], and
// what cannot be said by one message alone comes out with the verdict
// [wire.Local], for the caller, which remembers the rest. era.go has these rules' words.
//
// To add a revision: one step file, one entry in revision.go, golden files.
// Where to read on: step.go (what a rule is), plan.go (how rules are laid out),
// ops.go (the words they are written in), package wire (how bytes are changed).
// contract.go states the same as source, target and three translate calls.
package translate
