package tokens

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A class is a kind of character, as the patterns that split a text into pieces
// distinguish them. Each class is one bit, so that one test covers a set of
// classes.
type class uint8

const (
	upper   class = 1 << iota // \p{Lu} and \p{Lt}
	lower                     // \p{Ll}
	either                    // \p{Lm} and \p{Lo}: letters without case
	mark                      // \p{M}
	number                    // \p{N}
	newline                   // \r and \n
	blank                     // the rest of \s
	other                     // everything else, and bytes that are not UTF-8

	letter  = upper | lower | either
	space   = newline | blank
	symbol  = other | mark          // [^\s\p{L}\p{N}]
	heading = upper | either | mark // what the first half of a word may hold (o200k_base)
	ending  = lower | either | mark // what the second half may hold
)

// classRanges lists the class that the original tokenizer gives each character.
// Go's own tables are of another Unicode version, which changes with the
// compiler.
//
//go:embed classes.txt
var classRanges string

const blockBits = 7

// classes holds the class of every character.
type classes struct {
	ascii  [256]class // 0 above 0x7F
	index  [(utf8.MaxRune + 1) >> blockBits]uint16
	blocks [][1 << blockBits]class
}

// newClasses reads lines of "first last name": two code points in hexadecimal
// and the class of all code points from first to last.
func newClasses(ranges string) (*classes, error) {
	byName := map[string]class{"upper": upper, "lower": lower, "either": either, "mark": mark, "number": number, "space": blank}
	all := make([]class, utf8.MaxRune+1)
	for line := range strings.Lines(ranges) {
		f := strings.Fields(line)
		if len(f) != 3 || byName[f[2]] == 0 {
			return nil, fmt.Errorf("character classes: %q is no range", line)
		}
		first, err1 := strconv.ParseUint(f[0], 16, 32)
		last, err2 := strconv.ParseUint(f[1], 16, 32)
		if err1 != nil || err2 != nil || first > last || last > utf8.MaxRune {
			return nil, fmt.Errorf("character classes: %q is no range", line)
		}
		for r := first; r <= last; r++ {
			all[r] = byName[f[2]]
		}
	}
	all['\r'], all['\n'] = newline, newline

	c := &classes{}
	seen := make(map[[1 << blockBits]class]uint16)
	for i := range c.index {
		var block [1 << blockBits]class
		for j, k := range all[i<<blockBits : (i+1)<<blockBits] {
			if block[j] = k; k == 0 {
				block[j] = other
			}
		}
		at, ok := seen[block]
		if !ok {
			at = uint16(len(c.blocks))
			seen[block] = at
			c.blocks = append(c.blocks, block)
		}
		c.index[i] = at
	}
	copy(c.ascii[:], c.blocks[0][:])
	return c, nil
}

func (c *classes) of(r rune) class {
	return c.blocks[c.index[r>>blockBits]][r&(1<<blockBits-1)]
}
