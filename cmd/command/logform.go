package command

import (
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// A logForm is the form of log lines, which can be changed at any time. The zero value is JSON.
type logForm struct{ is atomic.Int32 }

const (
	formJSON = iota
	formText
	formColours
)

// set sets the form that log.format names, for lines that are written to stderr.
func (f *logForm) set(format string) {
	terminal := term.IsTerminal(int(syscall.Stderr)) // os.File.Fd would make it blocking
	switch {
	case format == config.LogJSON, format != config.LogText && !terminal:
		f.is.Store(formJSON)
	case terminal && colours() && runtime.GOOS != "windows": // where a console shows the codes unless it is told otherwise
		f.is.Store(formColours)
	default:
		f.is.Store(formText)
	}
}

var jsonLines = logEncoder()

// logEncoder returns the encoder of log lines as JSON.
func logEncoder() zapcore.Encoder {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = func(d time.Duration, out zapcore.PrimitiveArrayEncoder) { out.AppendString(shown(d).String()) }
	return zapcore.NewJSONEncoder(enc)
}

// line returns a log line, with its end.
func (f *logForm) line(e zapcore.Entry, fields []zapcore.Field) ([]byte, error) {
	if is := f.is.Load(); is != formJSON {
		return []byte(textLine(e, fields, is == formColours)), nil
	}
	buf, err := jsonLines.EncodeEntry(e, fields)
	if err != nil {
		return nil, err
	}
	defer buf.Free()
	return slices.Clone(buf.Bytes()), nil
}

// logCore writes log lines in a form to out.
type logCore struct {
	zapcore.LevelEnabler
	out  zapcore.WriteSyncer
	form *logForm
	with []zapcore.Field
}

// With returns a core whose lines have these fields first.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	next := *c
	next.with = append(c.with[:len(c.with):len(c.with)], fields...)
	return &next
}

// Check adds c to what writes an entry, if its level is enabled.
func (c *logCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write writes one line, or several for the stack of a panic.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if len(c.with) > 0 {
		fields = append(c.with[:len(c.with):len(c.with)], fields...)
	}
	line, err := c.form.line(e, fields)
	if err != nil {
		return err
	}
	_, err = c.out.Write(line)
	return err
}

// Sync waits until lines are written.
func (c *logCore) Sync() error { return c.out.Sync() }
