// Package filter translates messages of one revision into another's, line by line and without a peer at either end.
// The command dragoman translate uses it.
package filter

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Run translates until In ends. It notes lines that are not messages and skips them; in that case it returns an error
// at the end.
func (f Filter) Run() error {
	table, err := translate.NewTable(f.Options)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f.Out)
	run := &filterRun{
		Filter: f, table: table, notes: json.NewEncoder(f.Notes), out: out,
		asked: requests{}, facts: ^wire.Facts(0), recorded: map[string]*recordedSession{}, declared: map[uint64]wire.Facts{},
	}
	if f.Edge == "" {
		run.tr = table.Between(f.From, f.To)
	}
	run.notes.SetEscapeHTML(false)
	if err := run.all(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if run.failed {
		return errNotTranslated
	}
	return nil
}

func (r *filterRun) all() error {
	in := lines.NewReader(r.In, int(r.Limits.UpstreamMessage))
	for {
		line, err := in.Next()
		var tooLong *lines.TooLongError
		r.line++
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &tooLong):
			err = r.fail("", "", err)
		case err == nil:
			err = r.takeLine(line)
		}
		if err != nil {
			return err
		}
	}
}

// takeLine translates a line: a message, an array of messages, or an object that names the sender of its message.
func (r *filterRun) takeLine(line []byte) error {
	if r.Edge != "" {
		return r.takeRecorded(line)
	}
	by := r.By
	if dir, said := gjson.GetBytes(line, "dir"), gjson.GetBytes(line, "message"); said.Exists() && !gjson.GetBytes(line, "jsonrpc").Exists() && gjson.ValidBytes(line) {
		if by = Sender(dir.String()); by != FromClient && by != FromServer {
			return r.fail("", "", fmt.Errorf("dir is %q; it must be c2s or s2c", dir.String()))
		}
		line = []byte(said.Raw)
	} else if _, ok := recording.Parse(line); ok {
		return r.fail("", "", errors.New("this is a recording, which has the messages of both sides: choose one with --edge client or --edge server"))
	}
	return r.takePlain(line, by)
}
