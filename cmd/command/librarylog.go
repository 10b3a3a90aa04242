package command

import (
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// libraryLog writes what libraries say on the standard logger, which knows no
// levels, in the form of our own log. Quotations are left out: net/http quotes what
// a peer sent, and a peer may have sent what it was sent.
type libraryLog struct{ w io.Writer }

func (l libraryLog) Write(line []byte) (int, error) {
	said, _, _ := strings.Cut(strings.TrimSpace(string(line)), `"`)
	core := zapcore.NewCore(logEncoder(), zapcore.AddSync(l.w), zap.WarnLevel)
	zap.New(core).Warn("a library says", zap.String("said", strings.TrimSpace(said)))
	return len(line), nil
}
