package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Size is a number of bytes. As text it may have a unit: 10MiB, 64KiB.
type Size int

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	number, shift := n.Value, 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if text, ok := strings.CutSuffix(n.Value, unit); ok {
			number, shift = strings.TrimSpace(text), by
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v < 0 || v > min(1<<40, math.MaxInt)>>shift {
		return fmt.Errorf("%q is not a size; write 64KiB, 10MiB or a number of bytes", n.Value)
	}
	*s = Size(v << shift)
	return nil
}

// String returns the size with the largest unit that it is a whole number of.
func (s Size) String() string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n := int(s) >> unit.shift; n > 0 && n<<unit.shift == int(s) {
			return fmt.Sprint(n, unit.name)
		}
	}
	return fmt.Sprint(int(s))
}

// maxStores bounds the hosts in store.url.
const maxStores = 64
