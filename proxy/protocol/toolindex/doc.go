// Package toolindex keeps what a server's tools/list says about each tool.
//
// Several packages need facts about a tool that is called: which of its arguments are also sent in headers, whether
// it only runs as a task, what its structured results must look like. An [Index] learns from the pages that clients
// request ([Index.Learn]), and reads the list itself if it does not know a tool ([Index.Look]). One goroutine reads
// at a time. Others wait for it no longer than their own contexts, and no lock is held meanwhile. There is one index
// for each session with a server, or for each server without sessions. It is bounded, and can be cleared at any time.
package toolindex
