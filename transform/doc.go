// Package transform makes results fit for a model: it keeps the members that
// matter, shortens texts, splits lists into pages, and cuts the rest to a
// budget of tokens, which it counts exactly. It stores what it cuts, so that a
// client can read it later.
//
// # How a result is transformed
//
//	result ─► blocks ─► source ─► fields ─► truncate ─► paginate ─► cap ─► result
//
// An [Engine] is made from a [Config] and a list of [Source]s and does not
// change. [Engine.Apply] returns the slice that it was given if nothing
// applies. Otherwise:
//
//   - blocks.go finds the texts and the structured content of a result, and
//     writes the result anew around what has become of them;
//   - source.go has the registry of sources, each of which knows the results of
//     one kind of server and makes them shorter;
//   - shape.go runs the steps of the rule: package fields selects members,
//     page.go shortens texts and splits lists into pages;
//   - cap.go calls package fit to rank and cut the parts of the result, and
//     finds texts that repeat the structured content;
//   - package schema knows what a tool's outputSchema forbids;
//   - notice.go says what was cut and names the next call, store.go keeps the
//     original, and more.go serves it to the session and caller it belongs to.
//
// JSON stays bytes throughout: code that reads it works on a list of positions
// (package tree), so numbers keep their digits and members their order.
//
// # What does not happen
//
// No call fails because of a transformation: if a step cannot handle a result,
// the result stays as it came and is only cut to the budget. Results with
// isError are only cut to the budget.
package transform
