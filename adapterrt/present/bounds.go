package present

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// withBounds appends to o how small and how large a value of d may be.
func withBounds(o wire.Members, d *file.Definition) wire.Members {
	o = withBound(o, d.Minimum, "minimum", "exclusiveMinimum")
	o = withBound(o, d.Maximum, "maximum", "exclusiveMaximum")
	if d.MinLength >= 0 {
		o = o.Int("minLength", int64(d.MinLength))
	}
	if d.MaxLength >= 0 {
		o = o.Int("maxLength", int64(d.MaxLength))
	}
	return o
}

func withBound(o wire.Members, b *file.Bound, key, exclusive string) wire.Members {
	switch {
	case b == nil:
		return o
	case b.Open:
		key = exclusive
	}
	return o.Raw(key, b.Raw)
}

// withExtent appends to o how many elements a value of d may have, and what it is a multiple of.
func withExtent(o wire.Members, d *file.Definition) wire.Members {
	if d.Step != nil {
		o = o.Raw("multipleOf", d.Step)
	}
	if d.MinItems > 0 {
		o = o.Int("minItems", int64(d.MinItems))
	}
	if d.MaxItems > 0 {
		o = o.Int("maxItems", int64(d.MaxItems))
	}
	if d.Unique {
		o = o.Bool("uniqueItems", true)
	}
	return o
}

// inclusive returns b unless it is open.
func inclusive(b *file.Bound) *file.Bound {
	if b == nil || b.Open {
		return nil
	}
	return b
}
