package slowtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// textAt returns a string member of an object, or "" if there is none.
func textAt(object gjson.Result, name string) string {
	if !object.IsObject() {
		return ""
	}
	return unquote(object.Get(name))
}

// unquote returns the text of a string, or "" for any other value. A lone surrogate, which is
// allowed in JSON but not in UTF-8, becomes the three bytes that it would have in UTF-8; [quote] turns
// them back.
func unquote(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	raw := v.Raw[1 : len(v.Raw)-1]
	var out []byte
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		switch c := raw[i+1]; c {
		case 'u':
			r := hex4(raw[i+2:])
			i += 6
			if utf16.IsSurrogate(r) && strings.HasPrefix(raw[i:], `\u`) {
				if pair := utf16.DecodeRune(r, hex4(raw[i+2:])); pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			if utf16.IsSurrogate(r) {
				out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			} else {
				out = utf8.AppendRune(out, r)
			}
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, c)
		}
		i += 2
	}
	return string(out)
}

func hex4(s string) rune {
	n, err := strconv.ParseUint(s[:4], 16, 32)
	if err != nil {
		panic(err) // not valid JSON
	}
	return rune(n)
}

// quote returns a text, as [unquote] returns it, as a JSON string.
func quote(s string) string {
	out := []byte{'"'}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\u%04x`, rune(s[i]&0x0F)<<12|rune(s[i+1]&0x3F)<<6|rune(s[i+2]&0x3F))
			size = 3
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < 0x20:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
		i += size
	}
	return string(append(out, '"'))
}

func compact(raw string) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(raw)) != nil {
		return raw
	}
	return out.String()
}

// with returns the object with another value for one member.
func with(object gjson.Result, name, raw string) string {
	var out []string
	object.ForEach(func(key, v gjson.Result) bool {
		if key.String() == name {
			v.Raw = raw
		}
		out = append(out, key.Raw+":"+v.Raw)
		return true
	})
	return "{" + strings.Join(out, ",") + "}"
}

// Equal reports whether two JSON values are equal. The order of an object's members does not
// matter; numbers compare by value at any precision, strings by their text.
func Equal(a, b string) bool { return equal(gjson.Parse(a), gjson.Parse(b)) }

func equal(a, b gjson.Result) bool {
	switch {
	case a.IsObject() && b.IsObject():
		theirs := members(b)
		ours := members(a)
		if len(ours) != len(theirs) {
			return false
		}
		for name, v := range ours {
			if w, ok := theirs[name]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case a.IsArray() && b.IsArray():
		x, y := a.Array(), b.Array()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case a.Type != b.Type || a.Type == gjson.JSON:
		return false
	case a.Type == gjson.String:
		return unquote(a) == unquote(b)
	case a.Type == gjson.Number:
		return sameNumber(a.Raw, b.Raw)
	}
	return true
}

func members(object gjson.Result) map[string]gjson.Result {
	out := map[string]gjson.Result{}
	object.ForEach(func(key, v gjson.Result) bool {
		out[unquote(key)] = v
		return true
	})
	return out
}

func sameNumber(a, b string) bool {
	digitsA, exponentA := decimal(a)
	digitsB, exponentB := decimal(b)
	return digitsA == digitsB && exponentA.Cmp(exponentB) == 0
}

// decimal splits a number into an integer, without zeros at its ends, and a
// power of ten.
func decimal(n string) (string, *big.Int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(n), "e")
	exponent := new(big.Int)
	if power != "" {
		exponent.SetString(strings.TrimPrefix(power, "+"), 10)
	}
	sign := ""
	if after, ok := strings.CutPrefix(mantissa, "-"); ok {
		sign, mantissa = "-", after
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	digits := strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(digits, "0")
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(kept))))
	if kept == "" {
		return "0", new(big.Int)
	}
	return sign + kept, exponent
}
