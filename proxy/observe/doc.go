// Package observe shows what dragoman does to messages while it does it.
//
//	exchange ──► Call ──► tap ──► queue ──► Ring      (the live page)
//	(hooks)                 └───► queue ──► recorder  (a file)
//
// The proxy makes a [Call] of each message of a client and adds to it every message that belongs to it, as it is at
// the client's edge and at the server's. [Observer] hands them to its readers, each of which has a queue of its own: one
// that is slow loses events and is told how many, and no call ever waits for it. While there is no reader, a hook costs one
// atomic load and allocates nothing.
//
// A reader may want only as much as a person can look at. Then the calls that are too many are only summarized, and long
// messages cut: see summary.go and allowance.go.
//
// types.go has what readers get, observer.go the tap, queue.go the queues. ring.go keeps the newest calls, pack.go those that
// have ended as one text each, in the memory of chunks.go. rows.go and sessions.go are what calls add up to, filter.go is
// the language in which a person asks for some of them. Why a message changed is found out when a row is opened, see
// explain.go; lines.go lays it out beside what became of it, which align.go finds the common parts for.
//
// The rooms: inspect serves what was seen, with the files of page; recording writes and reads files of events; redact removes
// secrets from what is shown; instances keeps files with the URLs of pages.
package observe
