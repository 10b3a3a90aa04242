// Package orphans ends the process groups of a process that is killed.
//
// A process that is killed has no time to end what it has started, and its system may
// end at most its direct children. So a second process watches over it, which is the
// same program under another name: it is told the groups through a pipe, and ends them
// when the pipe does. There is one while there are groups, and it is there before the first
// of them: only what is killed within the microseconds between the start of a process and
// the word of it leaves its group. A process that has left its group, as daemons do, is not
// found.
//
// On Windows job objects do this, and the package does nothing.
package orphans
