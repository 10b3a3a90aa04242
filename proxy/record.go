package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
)

// Record begins the recording that record.file asks for, if it does. It must be called before Serve or ServePipe, which
// end it.
func (srv *Server) Record() error {
	cfg := &srv.Now().Config
	if cfg.Record.File == "" {
		return nil
	}
	r, err := recording.Start(&srv.Observer, recording.Options{
		File: recording.Name(cfg.Record.File), MaxBytes: int(cfg.Record.MaxBytes), Version: mcp.Version(), Configuration: digest(cfg),
	}, func() observe.Redactor { return srv.Now().Redactor }, func(err error) {
		srv.Metrics.RecordingFailures.Inc()
		srv.Host.Log.Error("the recording has ended, since its file cannot be written; calls go on", zap.Error(err),
			zap.String("advice", "make room on the disk, and restart dragoman to record into a new file"))
	})
	if err != nil {
		return fmt.Errorf("record.file: %w", err)
	}
	srv.Host.Log.Info("recording messages", zap.String("file", r.File()))
	srv.recorder = r
	return nil
}

// endRecording writes what waits.
func (srv *Server) endRecording() {
	if srv.recorder == nil {
		return
	}
	if err := srv.recorder.Close(); err != nil {
		srv.Host.Log.Error("cannot finish the recording", zap.Error(err))
	}
}

// digest returns what tells two configurations apart, without telling anything of them.
func digest(cfg *config.Config) string {
	text, err := json.Marshal(cfg)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
