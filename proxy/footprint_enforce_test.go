package proxy

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// TestATooLargeListLosesRedundantMembers: a list that is too large loses redundant members,
// but no tool. A list within its size loses nothing.
func TestATooLargeListLosesRedundantMembers(t *testing.T) {
	list := `{"tools":[{"name":"read_file","title":"Read File","description":"Reads a file.","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#",` +
		`"type":"object","properties":{"path":{"type":"string","description":"Path"}},"examples":[{"path":"a"}]},"outputSchema":{"type":"object"}}]}`
	less := `{"name":"read_file","description":"Reads a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"examples":[{"path":"a"}]},"outputSchema":{"type":"object"}}`
	for name, c := range map[string]struct {
		enforce bool
		most    config.Size
		want    string
	}{
		"too large":           {true, 100, less},
		"within its size":     {true, 10_000, gjson.Get(list, "tools.0").Raw},
		"any size":            {true, 0, gjson.Get(list, "tools.0").Raw},
		"too large, and told": {false, 100, gjson.Get(list, "tools.0").Raw},
	} {
		srv := front(t, answering("2025-11-25", false, nil, list), func(cfg *config.Config) {
			cfg.Footprint.Enforce, cfg.Footprint.MaxBytes = c.enforce, c.most
			cfg.Contract.SchemaDialect = "off" // otherwise $schema would be removed from every list
		})
		session := srv.initialize("2025-11-25")
		for range 2 {
			if got := gjson.Get(srv.post(session, listTools).body, "result.tools.0").Raw; got != c.want {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

func TestOwnToolsThatAreTooLargeAreRefused(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Footprint.MaxBytes = 1000
	srv, err := newServer(cfg, zap.NewNop(), origin.None())
	if err != nil {
		t.Fatal("they are refused without enforce: ", err)
	}
	strict := cfg
	strict.Footprint.Enforce = true
	for name, err := range map[string]error{
		"at start":  func() error { _, err := newServer(strict, zap.NewNop(), origin.None()); return err }(),
		"on reload": srv.Reload(strict),
	} {
		if err == nil || !strings.Contains(err.Error(), "footprint.enforce: adapter tools take ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	strict.Footprint.MaxBytes = 45 << 10
	if err := srv.Reload(strict); err != nil {
		t.Error(err)
	}
}
