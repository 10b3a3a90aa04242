// Package orphans ends the process groups of a process that is killed.
//
// A process that is killed cannot end the processes that it has started, and the system may
// end at most its direct children. So a second process watches over it, which is the same
// program under another name: the first process sends it the ids of the groups through a
// pipe, and it ends the groups when the pipe ends. The second process runs while there are
// groups, and starts before the first of them: a group is missed only if the kill comes in
// the microseconds between the start of its process and the message about it. A process
// that has left its group, as daemons do, is not found.
//
// On Windows job objects do this, and the package does nothing.
package orphans
