// Package transform makes results fit for a model: it keeps the members that
// matter, shortens texts, gives lists by the page, and holds what is left to a
// budget of tokens, exactly counted. The rest is kept and can be read on.
//
// # The way of a result
//
//	result ─► blocks ─► source ─► fields ─► truncate ─► paginate ─► cap ─► result
//
// An [Engine] is made from a [Config] and a list of [Source]s and does not
// change. [Engine.Apply] gives back the very slice it got when nothing applies.
// Otherwise:
//
//   - blocks.go finds the texts and the structured content of a result, and
//     writes the result anew around what has become of them;
//   - source.go has the registry of sources, each of which knows what one kind
//     of server answers and says it in fewer words;
//   - shape.go takes the steps of the rule: fields (the package) selects members,
//     page.go shortens single ones and gives lists by the page;
//   - cap.go has the parts of the result ranked and cut by fit (the package), and
//     finds what is said twice;
//   - schema (the package) knows what a tool's outputSchema forbids;
//   - notice.go says what was cut and names the next call, store.go keeps the
//     original, and more.go serves it to the session and caller it belongs to.
//
// JSON stays bytes throughout: what looks into it works on a list of positions
// (package tape), so numbers keep their digits and members their order.
//
// # What does not happen
//
// No call fails because of a transformation: a result that one cannot deal with
// goes on as it came, held to the budget. Results that say isError are never
// selected from, only capped.
package transform
