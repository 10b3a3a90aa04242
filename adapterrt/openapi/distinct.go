package openapi

import (
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Documents are not trusted. Their lists are compared by maps, because two loops over a list of a
// million values do not end.

// setOf returns the keys of the elements.
func setOf[T any, K comparable](list []T, key func(T) K) map[K]bool {
	set := make(map[K]bool, len(list))
	for _, v := range list {
		set[key(v)] = true
	}
	return set
}

// distinct returns the elements but those whose key an earlier one has.
func distinct[T any, K comparable](list []T, key func(T) K) (out []T) {
	seen := make(map[K]bool, len(list))
	for _, v := range list {
		if k := key(v); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

// common returns the elements of a whose keys elements of b have.
func common[T any, K comparable](a, b []T, key func(T) K) (out []T) {
	set := setOf(b, key)
	for _, v := range a {
		if set[key(v)] {
			out = append(out, v)
		}
	}
	return out
}

// union returns the elements of a and those of b, each once.
func union(a, b []string) []string { return distinct(slices.Concat(a, b), itself) }

// itself is the key of a text.
func itself(s string) string { return s }

// string is the key of a value that is equal only if it is written in the same way.
func (n *node) string() string { return string(n.JSON(nil)) }

// number is the key of a number, by which 1 and 1.0 are equal. The key of another value is its JSON.
func (n *node) number() any {
	if n.kind != wire.Number {
		return n.string()
	}
	if whole, ok := wire.AppendInteger(nil, []byte(n.text)); ok {
		return string(whole)
	}
	f, _ := strconv.ParseFloat(n.text, 64)
	return f
}
