// Package fit makes an answer fit a budget.
//
//	parts ─► nodes ─► units, in the order of their ranks ─► the longest prefix that fits ─► parts
//
// An answer is one tree of nodes: parts, values, texts, lines, pieces of long lines.
// Its leaves are the units. A node has a rank, which does not depend on the budget, and
// nothing in it ranks before it. A [Plan] has the units in the order of their
// ranks and keeps as many as fit. So a larger budget keeps all that a smaller
// one kept, and an answer that is one token over the budget loses one unit.
//
//   - node.go is the tree: what the children of a node are, and the order of the units;
//   - rank.go is the table of what ranks before what, line.go finds the lines that stand out: by their words
//     (word.go), in stack traces (trace.go) and in tables (column.go), state.go the items that say that something went wrong;
//     markup.go finds what a browser does not show;
//   - terminal.go makes of what was written to a terminal what is left on it;
//   - fit.go searches how many units fit, write.go writes what is kept,
//     table.go writes lists as columns and rows where the options ask for that;
//   - place.go says where something is missing, read.go continues reading
//     there.
package fit
