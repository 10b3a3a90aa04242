// Command release builds the files of a release of dragoman: for each of six platforms an
// archive and a software bill of materials, and the checksums of all files.
//
// The programs are those that "go install" of that version builds from the last commit, so that anyone
// can reproduce them, byte for byte, with the Go version that "dragoman version" prints.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	log.SetFlags(0)
	checkout := flag.String("checkout", "../..", "folder of the checkout, whose last commit is built")
	out := flag.String("out", "../../dist", "folder for the files, which is replaced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *checkout, *out, platforms)
	stop()
	if err != nil {
		log.Fatalln("release:", err)
	}
}

func run(ctx context.Context, checkout, out string, platforms []platform) error {
	changed, err := output(ctx, checkout, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("commit or remove these first, a release is built from the last commit:\n%s", changed)
	}
	version, err := newest(filepath.Join(checkout, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	r, err := build(ctx, checkout, version, platforms)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	return r.write(out)
}

// newest returns the version of the first heading in the changelog that has one, such as 0.1.0.
func newest(changelog string) (string, error) {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)\b`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s: no heading with a version, as in ## 0.1.0", changelog)
	}
	return string(m[1]), nil
}

// output runs a command in dir, with env added to its environment, and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(text)), nil
}
