package command

import (
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// libraryLog writes lines that libraries log with the standard logger, which has no
// levels, in the form of dragoman's log. It drops everything from the first quotation mark on: net/http
// quotes bytes that a peer sent, and a peer may have echoed a secret.
type libraryLog struct {
	w    io.Writer
	form *logForm
}

func (l libraryLog) Write(line []byte) (int, error) {
	said, _, _ := strings.Cut(strings.TrimSpace(string(line)), `"`)
	core := &logCore{LevelEnabler: zap.WarnLevel, out: zapcore.AddSync(l.w), form: l.form}
	zap.New(core).Warn("message from a library", zap.String("said", strings.TrimSpace(said)))
	return len(line), nil
}
