// Package toolindex keeps what a server's tools/list says of each tool.
//
// Several rooms need to know something of a tool that is about to be called, or was: which of its arguments stand in headers
// as well, whether it only runs as a task, what its structured results must look like. An [Index] is filled by the pages that
// clients ask for ([Index.Learn]) and by reading the list itself where a tool is not known ([Index.Look]): one reader at a
// time, for which others wait no longer than their own contexts, and no lock is held meanwhile. There is one index for each
// session with a server, or for each server without sessions; it is bounded, and can be forgotten at any time.
package toolindex
