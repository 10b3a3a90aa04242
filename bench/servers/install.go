package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const installLimit = 10 * time.Minute

// install installs a server in its folder, from the package's registry only: scripts of npm packages do not run.
func (c cache) install(ctx context.Context, s *server) error {
	if c.has(s) {
		return nil
	}
	dir := c.folder(s)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	var cmd *exec.Cmd
	if s.NPM != "" {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o644); err != nil {
			return err
		}
		cmd = exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", s.NPM)
	} else {
		cmd = exec.CommandContext(ctx, "go", "install", s.Go)
		cmd.Env = append(os.Environ(), "GOBIN="+filepath.Join(dir, "bin"), "GOFLAGS=", "GOWORK=off")
	}
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out[max(0, len(out)-500):])
	}
	return os.WriteFile(filepath.Join(dir, installedMark), nil, 0o644)
}
