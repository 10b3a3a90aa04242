package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// updateFile brings what has changed in a document into an adapter file.
func (i *importSettings) updateFile(cmd *cobra.Command, w *workplace, d *openapi.Document) error {
	data, err := readAdapter(i.update)
	if err != nil {
		return withCode(exitUsage, err)
	}
	a, problems := adapterrt.Parse(i.update, data, &w.options)
	if a == nil {
		return firstError(problems)
	}
	var base *openapi.Document
	if i.base != "" {
		if base, err = documentReader(cmd, w, i.fetch, i.files).read(cmd.Context(), i.base); err != nil {
			return err
		}
	}
	u, err := openapi.Update(data, a, d, base, w.options.InsecureHosts)
	if err != nil {
		return err
	}
	if len(u.Conflicts) > 0 {
		for _, c := range u.Conflicts {
			fmt.Fprintln(cmd.ErrOrStderr(), printable(i.update+":"+c.String()))
		}
		return fmt.Errorf("%s: nothing is written", count(len(u.Conflicts), "conflict"))
	}
	if bytes.Equal(u.Data, data) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: nothing has changed\n", i.update)
		return err
	}
	name := filepath.Base(i.update)
	if u.Data, err = i.renewed(w, name, u); err != nil {
		return err
	}
	if len(u.Data) > file.MaxFile {
		return fmt.Errorf("%s would have %d bytes, the limit is %d: add exclude to selection in its x-source, or import it again with --split", i.update, len(u.Data), file.MaxFile)
	}
	if err := checkAdapter(w, name, u.Data); err != nil {
		return err
	}
	if err := replaceFile(i.update, u.Data); err != nil {
		return err
	}
	for _, l := range u.Lines {
		fmt.Fprintln(cmd.OutOrStdout(), printable(l))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: updated\n", i.update)
	return err
}

// renewed returns the updated file with other examples for the operations that have changed:
// examples of operations that are gone, and those that fail now, are removed.
func (i *importSettings) renewed(w *workplace, name string, u *openapi.Updated) ([]byte, error) {
	all, problems := adapterrt.Rehearse(name, u.Data, &w.options)
	if err := firstError(problems); err != nil {
		return nil, err
	}
	remove := map[int]bool{}       // lines on which examples begin
	failing := map[string]bool{}   // operations with an example that fails
	with := map[string]bool{}      // operations with an example
	changed := map[string]string{} // new operations and those whose example fails
	for _, r := range all {
		with[r.Operation] = true
		for _, gone := range u.Removed {
			remove[r.Line] = remove[r.Line] || r.Operation == gone
		}
		for _, c := range u.Changed {
			if r.Operation == c && r.Fault != "" {
				remove[r.Line], failing[c] = true, true
			}
		}
	}
	if i.examples {
		var drafts []adapterrt.Draft
		var names []string
		for _, d := range u.Drafts {
			if !d.Random && (failing[d.Operation] || !with[d.Operation]) {
				drafts = append(drafts, adapterrt.Draft{Request: d.Request, Receives: d.Receives})
				names = append(names, d.Operation)
			}
		}
		made, _ := adapterrt.Illustrate(name, u.Data, &w.options, drafts)
		for k, e := range made {
			changed[names[k]] = e.Example
		}
	}
	return withExamples(u.Data, all, remove, changed), nil
}

// withExamples removes the examples that begin on the lines remove, and puts those of their operations in their
// place. Others are added at the end.
func withExamples(data []byte, all []adapterrt.Rehearsal, remove map[int]bool, others map[string]string) []byte {
	at := map[int]string{}
	for _, r := range all {
		at[r.Line] = r.Operation
	}
	var b strings.Builder
	skip := false
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if remove[n] {
			skip = true
			b.WriteString(others[at[n]])
			delete(others, at[n])
		}
		if !skip {
			b.WriteString(line)
		}
		if skip && strings.TrimSpace(line) == "```" {
			skip = false
		}
	}
	out := strings.TrimRight(b.String(), "\n") + "\n"
	for _, e := range sortedValues(others) {
		if e != "" {
			out += "\n" + e
		}
	}
	return []byte(out)
}

// replaceFile writes a file in one step, so that a running dragoman never reads a part of it.
func replaceFile(path string, data []byte) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".dragoman-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(st.Mode().Perm()), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func sortedValues(m map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}
