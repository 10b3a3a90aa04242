// Gen writes the benchmark corpus as files, for inspection.
//
//	go run ./bench/corpus/gen DIR
//
// DIR gets a folder for every revision, with one file for every message of that
// revision, and index.tsv, which describes the messages.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/translate"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// write writes all messages into dir. It creates dir if necessary.
func write(dir string) error {
	c, err := corpus.New(corpus.Largest)
	if err != nil {
		return err
	}
	for _, r := range translate.Handshake() {
		if err := writeRevision(filepath.Join(dir, r.Name), c.In(r)); err != nil {
			return err
		}
	}
	return nil
}

func writeRevision(dir string, messages []corpus.Message) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var index bytes.Buffer
	index.WriteString("name\tbytes\tfrom\tkind\tmethod\n")
	for _, m := range messages {
		from := "server"
		if m.FromClient {
			from = "client"
		}
		fmt.Fprintf(&index, "%s\t%d\t%s\t%s\t%s\n", m.Name, len(m.Raw), from, m.Kind, m.Method)
		if err := os.WriteFile(filepath.Join(dir, m.Name+".json"), m.Raw, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "index.tsv"), index.Bytes(), 0o644)
}
