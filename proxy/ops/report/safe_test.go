package report

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

type stringer string

func (s stringer) String() string { return string(s) }

// TestASafeLogShowsNoSecret, in no kind of field, and all else as it is.
func TestASafeLogShowsNoSecret(t *testing.T) {
	const planted = "planted-secret-1"
	core, logs := observer.New(zap.InfoLevel)
	var sent secret.Kept
	log := Safe(zap.New(core), func() []*secret.Set { return secret.Known{Sent: &sent}.Sets() })
	text := "it is " + planted
	fields := func(text string) []zap.Field {
		return []zap.Field{
			zap.String("text", text), zap.ByteString("bytes", []byte(text)), zap.Error(errors.New(text)), zap.Stringer("stringer", stringer(text)), zap.Strings("list", []string{"a", text}),
			zap.Any("map", map[string]any{"a": []string{text}, text: 1}), zap.Any("object", struct{ A string }{text}), zap.Reflect("reflected", []byte(text)), zap.Errors("errors", []error{errors.New(text)}),
			zap.Binary("binary", []byte(text)), zap.Dict("dict", zap.String("a", text), zap.Int("b", 1)), zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error { to.AddString("inline", text); return nil })),
			zap.Int("number", 7), zap.Bool("bool", true), zap.Duration("duration", time.Second), zap.Time("time", time.Unix(0, 0)), zap.Skip(), zap.Namespace("space"), zap.String("within", text),
		}
	}
	log.With(zap.String("before", text)).Info("before it is sent", fields(text)...)
	sent.Keep(planted)
	log.With(zap.String("with", text)).Info("with fields", fields(text)...)
	log.Debug("below the level", fields(text)...)
	log.Info("without a secret", fields("harmless")...)
	plain, plainLogs := observer.New(zap.InfoLevel)
	zap.New(plain).Info("without a secret", fields("harmless")...)
	as := func(e observer.LoggedEntry) string {
		b, err := json.Marshal(e.ContextMap())
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	all := logs.All()
	if len(all) != 3 {
		t.Fatalf("%d lines", len(all))
	}
	if got := as(all[0]); strings.Count(got, planted) < 10 {
		t.Errorf("before it was sent: %s", got)
	}
	if got := as(all[1]); strings.Contains(got, planted) || strings.Contains(got, "cGxhbnRlZC") || strings.Count(got, secret.Struck) < 12 || !strings.Contains(got, `"number":7`) || !strings.Contains(got, `"b":1`) {
		t.Errorf("a secret: %s", got)
	}
	if got, want := as(all[2]), as(plainLogs.All()[0]); got != want {
		t.Errorf("no secret:\n got  %s\n want %s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { log.Debug("nothing") }); n > 0 {
		t.Errorf("%v allocations where nothing is logged", n)
	}
}
