package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// version says what this build is.
func version(_ context.Context, e *exam) {
	for line := range strings.Lines(strings.TrimSpace(e.Version)) {
		e.info(strings.TrimSpace(line), "", "")
	}
	e.info(runtime.GOOS+" on "+runtime.GOARCH, "", "")
}

// configuration reads the configuration, and looks at the files that it names.
func configuration(_ context.Context, e *exam) {
	var err error
	e.cfg, err = e.Sources.Read()
	e.secrets = append(e.cfg.Secrets(), origin.Secrets(&e.cfg)...)
	if err != nil {
		e.mistakes(err)
		return
	}
	if e.cfg.Auth.Unused {
		e.warn(config.UnusedToken, config.TokenVariable, config.UseOfToken)
	}
	for _, r := range e.cfg.Said() {
		if r.Do == "" {
			e.info(r.What, r.Setting, "")
			continue
		}
		e.warn(r.What, r.Setting, r.Do)
	}
	before := len(e.lines)
	e.secretFiles()
	e.otherFiles()
	if !e.alone && !hasServer(e) && len(e.cfg.Adapters.Sources) == 0 {
		e.warn("no server is named", "upstream", "dragoman doctor URL, or dragoman doctor -- COMMAND; in a file upstream.url or upstream.command")
	}
	for _, l := range e.lines[before:] {
		if l.Mark == Fail {
			return
		}
	}
	if e.Sources.File == "" {
		e.ok("no mistakes; there is no file (--config FILE), only the defaults, variables and the command line", "")
		return
	}
	e.ok("no mistakes", e.Sources.File)
}

func canStart(e *exam) bool { return e.Start != nil }

// start makes what serve makes of the configuration, so that what the checks before do not find is found here and not by serve.
func start(_ context.Context, e *exam) {
	err := e.Start(e.cfg)
	if err == nil {
		what := "serve starts with it"
		if !hasServer(e) && !hasAdapters(e) {
			what += " and with a server, which it does not name"
		}
		e.ok(what, "")
		return
	}
	var all setting.Mistakes
	all.Add(err)
	e.mistakes(all)
}

// mistakes writes a line for each mistake.
func (e *exam) mistakes(err error) {
	all, are := errors.AsType[setting.Mistakes](err)
	if !are {
		e.fail(err.Error(), e.Sources.File, "--config FILE, or "+config.EnvFile)
		return
	}
	for _, m := range all {
		for text := range strings.SplitSeq(setting.OneLine(m.Text), "\n") { // of a part that reports all of its own mistakes in one text
			what, do, _ := strings.Cut(text, "; ")
			if m.Path != "" {
				what = m.Path + ": " + what
			}
			if before, instead, removed := strings.Cut(what, "this setting was removed: "); removed {
				what, do = before+"this setting was removed", "remove it: "+instead
			}
			e.fail(what, m.Where, do)
		}
	}
}

// namedFile is a file that a setting names.
type namedFile struct{ setting, path string }

// secretFiles checks that the files with secrets can be read, and only by their owner.
func (e *exam) secretFiles() {
	for _, f := range e.cfg.SecretFiles() {
		if !e.readable(namedFile{f.Setting, f.Path}) {
			continue
		}
		if what, do := secret.OpenToOthers(f.Path); what != "" {
			e.warn(f.Setting+": "+what, f.Path, do)
		}
	}
}

// otherFiles checks that the other files can be read.
func (e *exam) otherFiles() {
	c := &e.cfg
	all := []namedFile{
		{"tls.cert", c.TLS.Cert}, {"upstream.ca_file", c.Upstream.CAFile}, {"upstream.client_cert", c.Upstream.ClientCert},
		{"adapters.network.ca_file", c.Adapters.Network.CAFile}, {"upstream.dir", c.Upstream.Dir},
		{"store.ca_file", c.Store.CAFile}, {"store.client_cert", c.Store.ClientCert},
	}
	for i, path := range c.Adapters.Sources {
		all = append(all, namedFile{fmt.Sprintf("adapters.sources[%d]", i), path})
	}
	for _, f := range all {
		if f.path != "" {
			e.readable(f)
		}
	}
	for _, f := range []namedFile{{"upstream.ca_file", c.Upstream.CAFile}, {"store.ca_file", c.Store.CAFile}} {
		if f.path == "" {
			continue
		}
		if _, err := config.Certificates(f.path); err != nil && !isA[*fs.PathError](err) {
			e.fail(f.setting+": "+err.Error(), f.path, "it must hold certificates in PEM form, which begin with -----BEGIN CERTIFICATE-----")
		}
	}
}

// readable reports whether a file or a folder can be opened, and writes a line if not.
func (e *exam) readable(f namedFile) bool {
	file, err := os.Open(f.path)
	switch {
	case err == nil:
		file.Close()
		return true
	case errors.Is(err, fs.ErrNotExist):
		e.fail(f.setting+": there is no "+f.path, f.path, "create it, or correct the path")
	case errors.Is(err, fs.ErrPermission):
		e.fail(f.setting+": "+f.path+" cannot be read by this user", f.path, "change its owner or its mode")
	default:
		e.fail(f.setting+": "+err.Error(), f.path, "")
	}
	return false
}
