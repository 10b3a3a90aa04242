package adapterrt

import (
	"bytes"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// appendUnquoted appends the text of the valid JSON string raw to dst. A lone
// surrogate becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	return wire.AppendUnescaped(dst, raw[1:len(raw)-1])
}

// firstRunes is s cut after n runes.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// plainInteger writes the JSON number raw as plain digits (50.0 and 5e1 are 50).
// It reports false when raw is no whole number or has more than 400 digits.
func plainInteger(dst, raw []byte) ([]byte, bool) {
	const most = 400
	plain := true
	for _, c := range raw {
		if c == '.' || c|0x20 == 'e' {
			plain = false
			break
		}
	}
	if plain {
		if string(raw) == "-0" {
			raw = raw[1:]
		}
		return append(dst, raw...), len(raw) <= most
	}
	neg := raw[0] == '-'
	if neg {
		raw = raw[1:]
	}
	mantissa, exp := raw, 0
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		n, err := strconv.Atoi(string(bytes.TrimPrefix(raw[i+1:], []byte("+"))))
		if err != nil {
			n = 1 << 30 // out of range one way or the other; zero stays zero
			if raw[i+1] == '-' {
				n = -n
			}
		}
		mantissa, exp = raw[:i], n
	}
	whole, frac, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), frac...)
	point := len(whole) + exp // digits before the decimal point
	first := 0
	for first < len(digits) && digits[first] == '0' {
		first++
	}
	if first == len(digits) {
		return append(dst, '0'), true
	}
	last := len(digits)
	for digits[last-1] == '0' {
		last--
	}
	if last > point || point-first > most {
		return dst, false
	}
	if neg {
		dst = append(dst, '-')
	}
	dst = append(dst, digits[first:min(point, len(digits))]...)
	for i := len(digits); i < point; i++ {
		dst = append(dst, '0')
	}
	return dst, true
}
