// Package tokens counts the tokens that a text costs a model.
//
// [ForModel] returns the [Encoding] of a model, and [Named] returns an encoding
// by its own name. An Encoding counts whole texts and reports whether a text
// fits a budget; a [Counter] counts a text that comes in parts. The counts
// equal those of OpenAI's tokenizer. For models without a public tokenizer the
// count is an estimate, rather too high than too low.
//
// # How a text is counted
//
//	text ─► split ─► pieces ─► cache ─► merge ─► tokens
//
// What happens at each step:
//
//   - split.go splits a text as the encoding's regular expression would, but
//     looks at each character only a few times; classes.go says whether a
//     character is a letter, a mark or a blank.
//   - A token never reaches beyond its piece. Most pieces are words that were
//     counted before: cache.go remembers how many tokens they have.
//   - A piece is merged from single bytes: of all neighbours that together form
//     a token, those that form the token of the lowest rank are joined, until
//     no neighbours form a token. short.go does that in place, and begins with
//     whole characters where solid.go has found that the result is the same.
//     queue.go does it for long runs, in windows (long.go), so that any text
//     takes linear time.
//   - merges.go has the tables; vocabulary.go puts these steps together.
//
// # Budgets
//
// A text with no more bytes than the budget has tokens fits. A text with more
// than 128 times as many bytes does not fit, because no token is longer than
// 128 bytes. [Encoding.Fits] counts only the texts between;
// [Encoding.CountUpTo] counts those and the shorter ones. Both stop at the
// budget.
//
// # Where the tables come from
//
// mergefiles_test.go takes the vocabularies out of github.com/tiktoken-go/tokenizer
// (go test -run TestMergeFiles -update). That module has them as Go source, 12 MB of a program: only
// tests import it. testdata/golden.mjs asks the original tokenizer for the counts
// that the tests compare with, and for the character classes; it needs npm.
package tokens
