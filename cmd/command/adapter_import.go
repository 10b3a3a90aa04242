package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// importSettings are the flags of adapter import.
type importSettings struct {
	openapi.Options
	output   string
	split    string
	vars     []string
	set      []string
	names    string
	partial  bool
	examples bool
	report   string
	update   string
	base     string
	fetch    bool
	files    int
}

func adapterImportCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import DOCUMENT",
		Short: "Make adapter files of an OpenAPI or Swagger document",
		Long: "Make adapter files of a description of an API: OpenAPI 3.0 to 3.2, or Swagger 2.0, as JSON or YAML. DOCUMENT is\n" +
			"a file, - for standard input, or with --fetch an https URL or http://localhost. What a file cannot express is listed in it, and with\n" +
			"--report as JSON. Existing files are not overwritten: --update brings what has changed in the document into a file.\n\n" +
			"--include and --exclude select operations: tag:issues, path:/repos/**, id:issues/*, method:GET, op:get_*, scope:read\n" +
			"(of x-mcp in the document). In a path, * does not match a slash, and ** does. What --exclude matches is left out.\n\n" +
			"--omit-param and --set-param are about the parameters of that name in all operations, or in one: listPets.limit. What\n" +
			"--set-param sets, required parameters too, is sent with each request, and no model sees it. A list may be JSON, or have\n" +
			"commas between its elements. --auth takes security schemes of the document, with commas between several that are sent\n" +
			"together, or none, bearer, basic, header:NAME or query:NAME. The file records all choices, and --update makes them again.\n\n" +
			"--fields proposes, for each operation that reads JSON, the members of its answers that are shown unless a request asks\n" +
			"for others with fields. The file lists these operations: check the proposals.\n\n" +
			"What an operation answers is described by the names and types of members, of which the output schema of its tool is\n" +
			"made: at most 270 tokens each. --no-output-schema leaves that out.\n\n" + exitHelp,
		Example: "  dragoman adapter import openapi.yaml -o adapters\n" +
			"  dragoman adapter import --fetch https://api.example.com/openapi.json --name shop\n" +
			"  dragoman adapter import github.json --include tag:issues --include tag:pulls --split tag -o adapters\n" +
			"  dragoman adapter import shop.yaml --set-param account=4711 --omit-param debug --auth apiKey --names operationId\n" +
			"  dragoman adapter import new.yaml --update adapters/shop-adapter.md",
		Args: cobra.ExactArgs(1),
	}
	i := &importSettings{}
	f := cmd.Flags()
	i.output = "."
	f.VarP(&onePath{path: &i.output}, "output", "o", "directory for the files, or one file; - for standard output")
	f.StringVar(&i.Name, "name", "", "name of the adapter (default: made of the document's title)")
	f.StringArrayVar(&i.Include, "include", nil, "import only the operations that this selects; repeatable")
	f.StringArrayVar(&i.Exclude, "exclude", nil, "leave out the operations that this selects; repeatable")
	f.StringVar(&i.split, "split", "none", "files: none for one, tag for one for each tag, path for one for each first part of paths")
	f.StringVar(&i.Server, "server", "", "URL of the API, or the number of one of the document's servers, from 1")
	f.StringArrayVar(&i.vars, "server-var", nil, "NAME=VALUE of a variable in the server's URL; repeatable")
	f.StringArrayVar(&i.Omit, "omit-param", nil, "leave out the parameter of this name; repeatable")
	f.StringArrayVar(&i.set, "set-param", nil, "NAME=VALUE: hide the parameter of this name, and send it with this value; repeatable")
	f.StringVar(&i.Auth, "auth", "", "security schemes by which to authenticate (default: what most operations need)")
	f.StringVar(&i.names, "names", string(openapi.NamesSnake), "names of tools for one operation: snake_case, or operationId for those of the document")
	f.IntVar(&i.Most, "max-ops", 200, "refuse to import more operations than this; 0 for any number")
	f.BoolVar(&i.Deprecated, "deprecated", false, "import deprecated operations, too")
	f.BoolVar(&i.Fields, "fields", false, "propose default_fields: at most a dozen members of JSON answers")
	f.BoolVar(&i.NoOutputSchema, "no-output-schema", false, "do not describe what operations answer: tools have no output schemas then")
	f.BoolVar(&i.partial, "allow-partial", false, "leave out operations that an adapter cannot express")
	f.BoolVar(&i.examples, "examples", true, "write an example of each operation")
	f.Var(&onePath{path: &i.report}, "report", "write what did not fit, as JSON, into this file; - for standard output")
	f.Var(&onePath{path: &i.update}, "update", "adapter file into which to bring what has changed in the document")
	f.Var(&onePath{path: &i.base}, "base", "with --update: the document of which the file was made, to merge within operations")
	f.BoolVar(&i.fetch, "fetch", false, "fetch the document, and those that it refers to, over https, or http from localhost")
	filesFlag(cmd, &i.files)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := i.recorded(cmd); err != nil {
			return &exitError{exitUsage, err}
		}
		w, err := s.workplace(nil)
		if err != nil {
			return err
		}
		i.InsecureHosts = w.options.InsecureHosts
		d, err := documentReader(cmd, w, i.fetch, i.files).read(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if i.update != "" {
			return i.updateFile(cmd, w, d)
		}
		return i.run(cmd, w, d, args[0])
	}
	return cmd
}

// recorded returns an error if a flag is given together with --update that is about what the file records.
func (i *importSettings) recorded(cmd *cobra.Command) error {
	if i.update == "" {
		return nil
	}
	for _, name := range [...]string{"output", "name", "split", "max-ops"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s and --update exclude each other", name)
		}
	}
	for _, name := range [...]string{"include", "exclude", "server", "server-var", "omit-param", "set-param", "auth", "names", "deprecated", "fields", "no-output-schema"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s and --update exclude each other: what was chosen is in selection of x-source in %s; edit it there, then run --update", name, i.update)
		}
	}
	return nil
}

// options checks the flags.
func (i *importSettings) options() (openapi.Options, error) {
	o := i.Options
	switch o.Split = openapi.Split(i.split); o.Split {
	case openapi.SplitNone, openapi.SplitTag, openapi.SplitPath:
	default:
		return o, fmt.Errorf("--split %s: want none, tag or path", i.split)
	}
	switch o.Names = openapi.Names(i.names); o.Names {
	case openapi.NamesSnake, openapi.NamesID:
	default:
		return o, fmt.Errorf("--names %s: want snake_case or operationId", i.names)
	}
	var err error
	if o.ServerVars, err = assignments("--server-var", i.vars); err == nil {
		o.Set, err = assignments("--set-param", i.set)
	}
	return o, err
}

// assignments reads the values NAME=VALUE of a flag. It returns nil for none.
func assignments(flag string, values []string) (map[string]string, error) {
	var out map[string]string
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s %s: want NAME=VALUE", flag, v)
		}
		if out == nil {
			out = map[string]string{}
		}
		if _, there := out[name]; there {
			return nil, fmt.Errorf("%s %s is given twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

func (i *importSettings) run(cmd *cobra.Command, w *workplace, d *openapi.Document, doc string) error {
	opt, err := i.options()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	in, err := d.Import(opt)
	var many *openapi.TooMany
	if errors.As(err, &many) {
		tellGroups(cmd.ErrOrStderr(), many, doc)
	}
	if err != nil {
		return withCode(exitUsage, err)
	}
	if i.report != "" {
		if err := writeReport(cmd.OutOrStdout(), i.report, d, in); err != nil {
			return err
		}
	}
	if in.Dropped > 0 && !i.partial {
		for _, f := range in.Findings {
			if f.Class == openapi.Dropped {
				fmt.Fprintln(cmd.ErrOrStderr(), printable(f.Place+": "+f.Operation+": "+f.What+andDo(f.Do)))
			}
		}
		return fmt.Errorf("%s of %d cannot be imported: leave them out with --allow-partial", count(in.Dropped, "operation"), in.Selected)
	}
	if len(in.Files) == 0 {
		return errors.New("no operation can be imported")
	}
	files, wrong := make([]made, len(in.Files)), make([]error, len(in.Files))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for k, f := range in.Files {
		all.Go(func() error {
			files[k], wrong[k] = i.make(w, d, f)
			return nil
		})
	}
	_ = all.Wait()                           // never fails
	if err := cmp.Or(wrong...); err != nil { // that of the first file, whichever failed first
		return err
	}
	if err := i.write(cmd.OutOrStdout(), files); err != nil {
		return err
	}
	return tellImport(cmd.ErrOrStderr(), d, in, files)
}

func andDo(do string) string {
	if do == "" {
		return ""
	}
	return "; " + do
}

// made is a file that was imported.
type made struct {
	*openapi.File
	path     string
	data     []byte
	examples int

	credentials []string
	cost        toolCost
}

// make completes a file with its examples, and checks it as adapter validate and adapter test do.
func (i *importSettings) make(w *workplace, d *openapi.Document, f *openapi.File) (made, error) {
	m := made{File: f, credentials: f.Adapter.Auth.Credentials()}
	var examples []string
	if i.examples {
		var err error
		if examples, err = illustrated(w, f); err != nil {
			return m, err
		}
	}
	m.data, m.examples = f.Bytes(d, examples), len(examples)
	if len(m.data) > file.MaxFile && len(f.Front()) < file.MaxFile { // the operations are worth more
		m.data, m.examples = f.Bytes(d, nil), 0
	}
	if err := f.TooLarge(len(m.data)); err != nil {
		return m, err
	}
	var err error
	if m.cost, err = costOf(f.Adapter); err != nil {
		return m, err
	}
	return m, checkAdapter(w, f.FileName(), m.data)
}

// illustrated returns the examples of a file.
func illustrated(w *workplace, f *openapi.File) (examples []string, err error) {
	var drafts []adapterrt.Draft
	for _, d := range f.Drafts {
		if d.Random {
			continue
		}
		drafts = append(drafts, adapterrt.Draft{Request: d.Request, Receives: d.Receives})
	}
	all, err := adapterrt.IllustrateAdapter(f.Adapter, &w.options, drafts)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Fault == "" {
			examples = append(examples, e.Example)
		}
	}
	return examples, nil
}

// write writes the files, or none of them if one exists.
func (i *importSettings) write(stdout io.Writer, files []made) error {
	if i.output == "-" {
		if len(files) > 1 {
			return &exitError{exitUsage, fmt.Errorf("%d files cannot be written to standard output: give a directory with -o", len(files))}
		}
		_, err := stdout.Write(files[0].data)
		return err
	}
	st, err := os.Stat(i.output)
	folder := err == nil && st.IsDir()
	if err != nil && !strings.HasSuffix(i.output, ".md") {
		if err := os.MkdirAll(i.output, 0o777); err != nil {
			return err
		}
		folder = true
	}
	if !folder && len(files) > 1 {
		return &exitError{exitUsage, fmt.Errorf("%d files: -o %s is no directory", len(files), i.output)}
	}
	for k := range files {
		files[k].path = i.output
		if folder {
			files[k].path = filepath.Join(i.output, files[k].FileName())
		}
		if _, err := os.Lstat(files[k].path); err == nil {
			return fmt.Errorf("%s exists: bring changes into it with --update, or remove it", files[k].path)
		}
	}
	for _, m := range files {
		f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = f.Write(m.data)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// tellGroups says which operations there are, and how to select them.
func tellGroups(w io.Writer, many *openapi.TooMany, doc string) {
	const most = 60
	fmt.Fprintf(w, "%s are selected. Choose, for example:\n\n", count(many.Selected, "operation"))
	_ = tabulate(w, "", func(row func(...any)) {
		for _, g := range many.Groups[:min(len(many.Groups), most)] {
			row(g.Count, "dragoman adapter import "+shellWord(doc)+" --include "+shellWord(g.Selector))
		}
	})
	if n := len(many.Groups) - most; n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
	split, each := "tag", "tag"
	if len(many.Groups) > 0 && strings.HasPrefix(many.Groups[0].Selector, "path:") {
		split, each = "path", "first part of the paths"
	}
	fmt.Fprintf(w, "\n--include can be repeated. --max-ops 0 --split %s imports all of them, into a file for each %s.\n", split, each)
}

// shellWord quotes a word for a shell, if that is needed.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// tellImport says what was written, and what to do next.
func tellImport(w io.Writer, d *openapi.Document, in *openapi.Import, files []made) error {
	var b bytes.Buffer
	for _, m := range files {
		if m.path != "" {
			examples := ""
			if m.examples > 0 {
				examples = ", " + count(m.examples, "example")
			}
			fmt.Fprintf(&b, "%s: %s%s; %s\n", m.path, count(m.Operations, "operation"), examples, m.cost)
		}
	}
	byClass := map[openapi.Class]int{}
	for _, f := range in.Findings {
		byClass[f.Class]++
	}
	var parts []string
	for _, c := range [...]openapi.Class{openapi.Dropped, openapi.Guessed, openapi.Weaker} {
		if n := byClass[c]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c))
		}
	}
	if parts != nil {
		fmt.Fprintf(&b, "what did not fit: %s; the file has a list\n", strings.Join(parts, ", "))
	}
	parts = nil
	for _, key := range slices.Sorted(maps.Keys(in.Left)) {
		what, why, _ := strings.Cut(key, ", ")
		parts = append(parts, strings.TrimSuffix(count(in.Left[key], what)+" ("+why+")", " ()"))
	}
	if parts != nil {
		fmt.Fprintf(&b, "left out: %s\n", strings.Join(parts, ", "))
	}
	if files[0].path != "" {
		for _, c := range files[0].credentials {
			if credentialState(c) == "(not set)" {
				fmt.Fprintf(&b, "set %s to the credential\n", c)
			}
		}
		what, where := "it", files[0].path
		if len(files) > 1 {
			what, where = "them", filepath.Dir(where)
		}
		fmt.Fprintf(&b, "next: read %s, then dragoman serve --adapters %s\n", what, shellWord(where))
	}
	_, err := io.WriteString(w, printableLines(b.String()))
	return err
}

// reportJSON is what --report writes.
type reportJSON struct {
	Document struct {
		Title   string `json:"title"`
		Version string `json:"version"`
		Format  string `json:"format"`
		SHA256  string `json:"sha256"`
	} `json:"document"`
	Files    []reportFile      `json:"files"`
	Selected int               `json:"selected"`
	Dropped  int               `json:"dropped"`
	Left     map[string]int    `json:"left_out"`
	Findings []openapi.Finding `json:"findings"`
}

type reportFile struct {
	File       string `json:"file"`
	Operations int    `json:"operations"`
}

func writeReport(stdout io.Writer, path string, d *openapi.Document, in *openapi.Import) error {
	r := reportJSON{Selected: in.Selected, Dropped: in.Dropped, Left: in.Left, Findings: slices.Concat([]openapi.Finding{}, in.Findings), Files: []reportFile{}}
	r.Document.Title, r.Document.Version, r.Document.Format, r.Document.SHA256 = d.Title, d.Version, d.Format, d.Digest
	for _, f := range in.Files {
		r.Files = append(r.Files, reportFile{f.FileName(), f.Operations})
	}
	if path == "-" {
		return printJSON(stdout, r)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(printJSON(f, r), f.Close())
}
