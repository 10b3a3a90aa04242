package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

func adapterValidateCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Report every mistake in adapter files",
		Long: "Report every mistake in adapter files at once, one a line, or all as a JSON array of\n" +
			"{path, message, expected, received, code, severity, file, line}. Directories stand for the adapter\n" +
			"files in them; without arguments the files are those of --adapters. Nothing is called.\n\n" + exitHelp,
		Example: "  dragoman adapter validate adapters/my-api-adapter.md\n" +
			"  dragoman adapter validate --strict --json adapters | jq '.[].message'",
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	strict := cmd.Flags().Bool("strict", false, "treat warnings as errors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := s.workplace(args)
		if err != nil {
			return err
		}
		files, problems := file.Find(w.sources)
		if len(files)+len(problems) == 0 {
			return &exitError{exitUsage, fmt.Errorf("%s: %s", w.where(), file.NoFiles)}
		}
		w.options.StrictFiles = w.options.StrictFiles || *strict
		rt, err := adapterrt.New(w.options)
		if err != nil {
			return err
		}
		defer rt.Close()
		more, err := rt.Load(files)
		if err != nil {
			return err
		}
		if problems = append(problems, more...); *asJSON {
			if problems == nil {
				problems = []file.Problem{}
			}
			err = printJSON(cmd.OutOrStdout(), problems)
		} else {
			for _, p := range problems {
				if _, err = fmt.Fprintln(cmd.OutOrStdout(), printable(p.String())); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
		errs := countErrors(problems)
		if errs > 0 {
			return &exitError{exitUsage, fmt.Errorf("%s in %s", count(errs, "error"), count(len(files), "file"))}
		}
		if !*asJSON {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, %s\n", count(len(files), "file"), count(len(problems), "warning"))
		}
		return err
	}
	return cmd
}

func countErrors(problems []file.Problem) (n int) {
	for _, p := range problems {
		if p.Severity == file.Error {
			n++
		}
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func adapterTestCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Run the examples in adapter files, offline",
		Long: "Run the examples in the documentation of adapter files. An example says what an operation sends, what\n" +
			"the API answers, and what the result must be. Nothing is sent and no credential is read. Each example is\n" +
			"a fenced block with the language golden; the file that dragoman adapter new NAME prints has one.\n\n" + exitHelp,
		Example: "  dragoman adapter test adapters/my-api-adapter.md",
	}
	verbose := cmd.Flags().BoolP("verbose", "v", false, "also print the examples that pass")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		w, err := s.workplace(args)
		if err != nil {
			return err
		}
		files, problems := file.Find(w.sources)
		if len(files)+len(problems) == 0 {
			return &exitError{exitUsage, fmt.Errorf("%s: %s", w.where(), file.NoFiles)}
		}
		played, wrong, failures := 0, 0, 0
		tell := func(problems []file.Problem) {
			for _, p := range problems {
				if p.Severity == file.Error {
					wrong++
					fmt.Fprintln(out, printable(p.String()))
				}
			}
		}
		tell(problems)
		for _, file := range files {
			data, err := readAdapter(file)
			if err != nil {
				return err
			}
			all, problems := adapterrt.Rehearse(file, data, &w.options)
			tell(problems)
			if len(all) == 0 && countErrors(problems) == 0 {
				fmt.Fprintf(out, "%s: no examples\n", file)
			}
			for _, r := range all {
				if played++; r.Fault != "" {
					failures++
					fmt.Fprintf(out, "%s:%d: %s %s\n", file, r.Line, printable(r.Operation), printableLines(r.Fault))
				} else if *verbose {
					fmt.Fprintf(out, "%s:%d: %s ok\n", file, r.Line, printable(r.Operation))
				}
			}
		}
		switch {
		case wrong > 0:
			return &exitError{exitUsage, fmt.Errorf("%s in adapter files", count(wrong, "error"))}
		case failures > 0:
			return &exitError{exitServer, fmt.Errorf("%d of %s failed", failures, count(played, "example"))}
		}
		_, err = fmt.Fprintf(out, "%s, all passed\n", count(played, "example"))
		return err
	}
	return cmd
}

// readAdapter reads a file up to one byte more than the maximum size of adapters, so that a
// larger file is refused without reading all of it.
func readAdapter(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20+1))
}

func adapterNewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Print a commented adapter file to start from",
		Long: "Print a commented adapter file to start from, or write it to a new file.\n" +
			"It is valid as it is, and its example passes dragoman adapter test.\n\n" + exitHelp,
		Example: "  dragoman adapter new my-api > adapters/my-api-adapter.md\n" +
			"  dragoman adapter new my-api --output adapters",
		Args: cobra.ExactArgs(1),
	}
	output := new(string)
	cmd.Flags().VarP(&onePath{path: output}, "output", "o", "file to write, or the directory for NAME-adapter.md")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		text := present.Starter(name)
		if _, problems := adapterrt.Parse(name+"-adapter.md", []byte(text), &adapterrt.Options{}); countErrors(problems) > 0 {
			return withCode(exitUsage, errors.New("an adapter's name is 2–64 characters of a-z, 0-9 and -, starting with a letter, not ending with -"))
		}
		if *output == "" {
			_, err := fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		}
		path := *output
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			path = filepath.Join(path, name+"-adapter.md")
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
		}
		return err
	}
	return cmd
}

func firstError(problems []file.Problem) error {
	for _, p := range problems {
		if p.Severity == file.Error {
			return &exitError{exitUsage, errors.New(p.String())}
		}
	}
	return nil
}

// checkAdapter checks a file and its examples before it is written.
func checkAdapter(w *workplace, name string, data []byte) error {
	all, problems := adapterrt.Rehearse(name, data, &w.options)
	if err := firstError(problems); err != nil {
		return err
	}
	for _, r := range all {
		if r.Fault != "" {
			return &exitError{exitUsage, fmt.Errorf("%s:%d: the example of %s fails: %s", name, r.Line, r.Operation, r.Fault)}
		}
	}
	return nil
}
