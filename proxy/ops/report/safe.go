package report

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// Safe returns a log that writes to log, without the secrets that known returns when a line is written: whatever a line quotes, it shows
// none of them. It costs nothing where nothing is logged.
func Safe(log *zap.Logger, known func() []*secret.Set) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &safeCore{c, known} }))
}

type safeCore struct {
	zapcore.Core
	known func() []*secret.Set
}

// With strikes the secrets of now out of fields that all further lines have.
func (c *safeCore) With(fields []zapcore.Field) zapcore.Core {
	return &safeCore{c.Core.With(c.struck(fields)), c.known}
}

func (c *safeCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c *safeCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, c.struck(fields))
}

// struck returns fields without secrets. It changes none of them.
func (c *safeCore) struck(fields []zapcore.Field) []zapcore.Field {
	sets := c.known()
	var safe []zapcore.Field
	for i := range fields {
		f := without(&fields[i], sets)
		if f == nil {
			continue
		}
		if safe == nil {
			safe = append(safe, fields...)
		}
		safe[i] = *f
	}
	if safe == nil {
		return fields
	}
	return safe
}

// without returns a field in the place of one that shows a secret; nil if it shows none.
func without(f *zapcore.Field, sets []*secret.Set) *zapcore.Field {
	text := ""
	switch f.Type {
	case zapcore.StringType:
		text = f.String
	case zapcore.ByteStringType:
		text = string(f.Interface.([]byte))
	case zapcore.BoolType, zapcore.DurationType, zapcore.TimeType, zapcore.Int64Type, zapcore.Int32Type, zapcore.Uint64Type, zapcore.Uint32Type, zapcore.Float64Type, zapcore.SkipType, zapcore.NamespaceType:
		return nil
	default: // an error, a list, a Stringer: as it would be written
		m := zapcore.NewMapObjectEncoder()
		f.AddTo(m)
		for name, value := range m.Fields {
			if safe, ok := struckValue(value, sets); ok {
				m.Fields[name] = safe
				text = secret.Struck
			}
		}
		if text == "" {
			return nil
		}
		in := zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
			for name, value := range m.Fields {
				if err := to.AddReflected(name, value); err != nil {
					return err
				}
			}
			return nil
		}))
		return &in
	}
	if !secret.Has(text, sets...) {
		return nil
	}
	safe := zap.String(f.Key, secret.Strike(text, sets...))
	return &safe
}

// struckValue returns a value of a field without secrets, and whether it had any.
func struckValue(value any, sets []*secret.Set) (safe any, had bool) {
	switch v := value.(type) {
	case nil, bool, int, int64, int32, uint64, float64:
		return value, false
	case string:
		return secret.Strike(v, sets...), secret.Has(v, sets...)
	case []any:
		list := make([]any, len(v))
		for i, one := range v {
			safe, is := struckValue(one, sets)
			list[i], had = safe, had || is
		}
		return list, had
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, one := range v {
			safe, is := struckValue(one, sets)
			all[secret.Strike(name, sets...)] = safe
			had = had || is || secret.Has(name, sets...)
		}
		return all, had
	}
	text := zap.Any("", value)
	buf, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(zapcore.Entry{}, []zapcore.Field{text})
	if err != nil || secret.Has(buf.String(), sets...) {
		return secret.Struck, true
	}
	return value, false
}
