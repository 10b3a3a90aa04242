// Package fit makes an answer fit a budget.
//
//	parts ─► docs ─► units, ranked ─► the longest beginning that fits ─► parts
//
// An answer is broken into small units: scalars, short rows, lines, pieces of long
// lines. Each has a rank that does not depend on the budget (rank.go has the table of
// what ranks before what). A [Plan] has the units in that order and keeps as many as
// fit; so a larger budget keeps all that a smaller one kept, and one token over the
// budget costs one unit.
//
//   - tree.go ranks and writes JSON: shallow before deep, what a thing is before what
//     it holds, and never less than a schema asks for;
//   - table.go writes lists of like objects as columns and rows, where that is asked for;
//   - text.go ranks and writes texts, each gap told in a line; survey.go finds what
//     failed and errors in them, outline.go headings, signatures and the
//     first hit in each file;
//   - plan.go sorts, searches and marks; place.go says where something is missing;
//   - read.go goes on in the order of the document, without what was shown.
package fit
