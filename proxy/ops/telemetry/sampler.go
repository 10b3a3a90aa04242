package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// sampler says which messages have spans. The decision is made before anything else, so that a message without spans
// costs nothing.
type sampler struct {
	ignoresParent bool
	ratio         float64 // of the messages whose parent does not decide
}

// newSampler returns the sampler that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name.
func newSampler(name, arg string) (s sampler, err error) {
	root, based := strings.CutPrefix(name, "parentbased_")
	s.ignoresParent = !based && name != ""
	switch root {
	case "", "always_on":
		s.ratio = 1
	case "always_off":
	case "traceidratio":
		s.ratio = 1
		if arg != "" {
			if s.ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(s.ratio >= 0 && s.ratio <= 1) {
				return s, errors.New("OTEL_TRACES_SAMPLER_ARG: not a number from 0 to 1")
			}
		}
	default:
		return s, fmt.Errorf("OTEL_TRACES_SAMPLER: dragoman has always_on, always_off, traceidratio and each with parentbased_ in front")
	}
	return s, nil
}

// takes reports whether a message with this parent, which may be invalid, has spans.
func (s sampler) takes(parent *spanContext) bool {
	switch {
	case parent.valid() && !s.ignoresParent:
		return parent.sampled()
	case s.ratio >= 1:
		return true
	case s.ratio <= 0:
		return false
	case parent.valid(): // all processes decide alike about a trace, by its last 63 bits
		return float64(binary.BigEndian.Uint64(parent.trace[8:])>>1) < s.ratio*(1<<63)
	}
	return rand.Float64() < s.ratio
}
