// Package tokens counts what a text costs a model.
//
// [ForModel] returns the [Encoding] of a model, [Named] one by its own name; it
// counts whole texts, says whether one keeps to a budget, and a [Counter] takes
// a text in parts. cl100k_base and o200k_base are counted as OpenAI's tokenizer
// does, token for token; older encodings by the Go library; for models without
// a public tokenizer it is an estimate on the safe side.
//
// # The way of a text
//
//	text ─► split ─► pieces ─► cache ─► merge ─► tokens
//
// What happens at each step:
//
//   - split.go cuts a text as the encoding's regular expression would, by hand
//     and looking at no character more than a few times; what a character is, a
//     letter or a mark or a blank, is in classes.go.
//   - A token never reaches beyond its piece. Most pieces are words that were
//     there before: cache.go remembers how many tokens they are.
//   - A piece is merged from single bytes: of all neighbours that are a token
//     together, those of the lowest rank are joined, until none are left.
//     short.go does that in place, and begins with whole characters where
//     solid.go has found that this comes to the same; queue.go does it for long
//     runs, in windows (long.go), so that a text takes linear time whatever it is.
//   - merges.go has the tables, vocabulary.go holds all of it together.
//
// # Budgets
//
// A text of no more bytes than the budget has tokens fits, and one of more than
// 128 times as many bytes does not, since no token is longer: [Encoding.Fits]
// and [Encoding.CountUpTo] count only between, and stop at the budget.
//
// # Where the tables come from
//
// internal/gen takes the vocabularies out of github.com/tiktoken-go/tokenizer
// (go generate). testdata/golden.mjs asks the original tokenizer for the counts
// that the tests compare with, and for the character classes; it needs npm.
package tokens
