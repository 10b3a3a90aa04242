package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/transform"
)

// settings are the flags of a command. A flag takes precedence over the environment
// and the configuration file.
type settings struct {
	cmd       *cobra.Command
	file      string
	chosen    string // server of a client's configuration
	listen    string
	upstream  string
	transport string
	version   string
	headers   []string
	passEnv   []string
	adapters  []string
	share     bool
	maxTokens int
	oauth     []string
	profile   string
	login     string
	record    string
	inspect   bool
	open      bool
	logLevel  string
	taken     int // arguments before -- that are of the command itself

	// wholeEnv says that COMMAND gets the whole environment of this process unless
	// upstream.pass_env is set: a client that starts dragoman instead of COMMAND puts the
	// variables for COMMAND there.
	wholeEnv bool

	// shim says that the one client's user is at this machine.
	shim bool
}

// A flagGroup adds a group of flags to a command.
type flagGroup func(*settings)

func listenFlags(s *settings) {
	s.cmd.Flags().StringVar(&s.listen, "listen", "", "address that clients connect to: host:port, or unix:/run/dragoman.sock for a unix socket (default 127.0.0.1:8808)")
}

func serverFlag(s *settings) {
	s.cmd.Flags().StringVar(&s.chosen, "server", "", "name of one of several servers, if the file of --config is the configuration of a client, such as mcp.json")
}

func upstreamFlags(s *settings) {
	serverFlag(s)
	f := s.cmd.Flags()
	f.StringVar(&s.upstream, "upstream", "", "URL of the server's Streamable HTTP endpoint, or of its HTTP+SSE stream; unix:/run/server.sock:/mcp for a unix socket")
	f.StringVar(&s.transport, "upstream-transport", "", "of a server at a URL: http, sse, or auto to find out (default auto)")
	f.StringVar(&s.version, "upstream-version", "", "the only protocol revision to propose to the server (default: the newest, and older ones to a server that refuses it)")
	f.StringArrayVar(&s.headers, "header", nil, "header for requests to the server, 'Name: value'; ${NAME} is replaced with the environment variable NAME; repeatable")
	f.BoolVar(&s.share, "share-child", false, "share one process of COMMAND between all sessions, for servers known to be stateless")
	f.StringArrayVar(&s.passEnv, "pass-env", nil, "further environment variable that COMMAND gets, '*' for all; repeatable")
}

func adapterFlags(s *settings) {
	s.cmd.Flags().StringArrayVar(&s.adapters, "adapters", nil, "directory or file of adapters, served beside the server's tools or alone; repeatable")
}

func transformFlags(s *settings) {
	s.cmd.Flags().IntVar(&s.maxTokens, "max-tokens", 0, "limit every result to this many tokens, at least 100 (transform.default_max_tokens)")
}

func inspectFlags(s *settings) {
	s.cmd.Flags().BoolVar(&s.inspect, "inspect", false, "serve a page that shows messages as they pass; \"dragoman inspect\" prints its URL (inspect.enabled)")
	openFlag(s)
}

func openFlag(s *settings) {
	s.cmd.Flags().BoolVar(&s.open, "open", false, "serve the page that shows messages as they pass, and open it in a browser on this machine")
}

func recordFlags(s *settings) {
	s.cmd.Flags().StringVar(&s.record, "record", "", "new file to record all messages in, without secrets; {time} is replaced by the time (record.file)")
}

// newSettings adds --config, --log-level and the flags of groups to cmd.
func newSettings(cmd *cobra.Command, groups ...flagGroup) *settings {
	s := &settings{cmd: cmd}
	f := cmd.Flags()
	f.Var(&onePath{path: &s.file}, "config", "configuration file: dragoman's own (YAML), or that of a client, such as mcp.json")
	f.StringVar(&s.logLevel, "log-level", "", "debug, info, warn or error (default info)")
	for _, g := range groups {
		g(s)
	}
	return s
}

// configFile returns the path of the configuration file, or "" for none.
func (s *settings) configFile() string {
	if s.file != "" {
		return s.file
	}
	return atHome(os.Getenv(config.EnvFile))
}

// config builds the configuration from the defaults, the file, the environment and the flags.
// args are a URL of the server, or its command behind --.
func (s *settings) config(args []string) (config.Config, error) {
	cfg, err := s.sources(args).Read()
	if err != nil {
		return cfg, &exitError{exitUsage, err}
	}
	if needsServer(s.cmd) && cfg.Upstream.URL == "" && len(cfg.Upstream.Command) == 0 && (len(cfg.Adapters.Sources) == 0 || s.cmd.Flags().Lookup("adapters") == nil) {
		return cfg, noServer(s.cmd, s.configFile())
	}
	return cfg, nil
}

// lay writes the values of the flags into cfg.
func (s *settings) lay(cfg *config.Config, l *setting.Layers, args []string) {
	server, command, err := s.server(args)
	if u := (config.Upstream{Command: command, Dir: cfg.Upstream.Dir}); len(command) > 0 && u.Quoted() {
		err = fmt.Errorf("no quotes around the command: %s -- %s", s.cmd.CommandPath(), config.AsTyped(append(strings.Fields(command[0]), command[1:]...)))
		command = nil
	}
	l.Add(err)
	if server != "" {
		cfg.Upstream.URL, cfg.Upstream.Command, cfg.Upstream.ShareChild = server, nil, false
		l.Flag("upstream.url", "command line")
	}
	if len(command) > 0 {
		cfg.Upstream.URL, cfg.Upstream.Command = "", command
		l.Flag("upstream.command", "command line")
	}
	cfg.Adapters.Sources = append(cfg.Adapters.Sources, s.adapters...)
	cfg.Upstream.ShareChild = cfg.Upstream.ShareChild || s.share
	for path, flag := range map[string]string{"adapters.sources": "adapters", "upstream.share_child": "share-child", "upstream.pass_env": "pass-env"} {
		if s.cmd.Flags().Changed(flag) {
			l.Flag(path, "--"+flag)
		}
	}
	for _, f := range []struct {
		field             *string
		value, path, flag string
	}{
		{&cfg.Listen, s.listen, "listen", "--listen"},
		{&cfg.Upstream.Transport, s.transport, "upstream.transport", "--upstream-transport"},
		{&cfg.Upstream.Version, s.version, "upstream.version", "--upstream-version"},
		{&cfg.Log.Level, s.logLevel, "log.level", "--log-level"},
		{&cfg.Record.File, s.record, "record.file", "--record"},
	} {
		if f.value != "" {
			*f.field = f.value
			l.Flag(f.path, f.flag)
		}
	}
	if s.cmd.Flags().Changed("inspect") {
		cfg.Inspect.Enabled = s.inspect
		l.Flag("inspect.enabled", "--inspect")
	}
	if s.open {
		cfg.Inspect.Enabled = true
		l.Flag("inspect.enabled", "--open")
	}
	if s.maxTokens != 0 {
		t := transform.DefaultConfig()
		if cfg.Transform != nil {
			t = *cfg.Transform
		}
		t.Enabled, t.DefaultMaxTokens = true, s.maxTokens
		cfg.Transform = &t
		l.Flag("transform.default_max_tokens", "--max-tokens")
		l.Flag("transform.enabled", "--max-tokens")
	}
	for _, h := range s.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			what := "expected 'Name: value'" // h itself may be a secret
			if name, _, ok := strings.Cut(h, "="); ok && headerName().MatchString(name) && (secret.Named(name) || strings.Contains(name, "-")) {
				what = "write '" + name + ": …', with a colon"
			}
			l.Add(setting.Mistake{Where: "--header", Text: what})
			continue
		}
		if cfg.Upstream.Headers == nil {
			cfg.Upstream.Headers = make(map[string]string)
		}
		cfg.Upstream.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		l.Flag("upstream.headers", "--header")
		l.Flag("upstream.headers."+strings.TrimSpace(name), "--header")
	}
	s.laySignIn(cfg, l)
	if s.wholeEnv && slices.Equal(cfg.Upstream.PassEnv, upstream.DefaultEnv()) {
		cfg.Upstream.PassEnv = []string{"*"}
	}
	cfg.Upstream.PassEnv = append(cfg.Upstream.PassEnv, s.passEnv...)
}

// headerName matches the name of a header, and few secrets.
var headerName = pattern.Later(`^[A-Za-z][A-Za-z-]{0,39}$`)

// server returns the server's URL or command, from args and flags.
func (s *settings) server(args []string) (server string, command []string, err error) {
	dash := s.cmd.ArgsLenAtDash()
	before := args
	if dash >= 0 {
		dash -= s.taken
		before, command = args[:min(dash, len(args))], args[min(dash, len(args)):]
	}
	switch {
	case len(before) == 1 && looksLikeURL(before[0]):
		server = strings.TrimSpace(before[0])
	case len(before) > 1 && looksLikeURL(before[0]):
		return "", nil, fmt.Errorf("%q follows the server's URL: %s takes one URL, and all else in flags", config.AsTyped(before[1:2]), s.cmd.CommandPath())
	case len(before) > 0:
		return "", nil, notAServer(s.cmd, args)
	}
	switch {
	case server != "" && s.upstream != "":
		return "", nil, fmt.Errorf("two servers are given, %s and --upstream %s: keep one", config.AsTyped([]string{server}), config.AsTyped([]string{s.upstream}))
	case server+s.upstream != "" && len(command) > 0:
		return "", nil, errors.New("two servers are given, a URL and a command: keep one")
	}
	return cmp.Or(server, s.upstream), command, nil
}

// logger writes to stderr: stdout belongs to clients.
func logger(cfg config.Config) (*zap.Logger, error) {
	log, _, err := adjustableLogger(cfg)
	return log, err
}

// adjustableLogger returns a logger, and its level, which can be changed later.
func adjustableLogger(cfg config.Config) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(cfg.Log.Level)
	if err != nil {
		return nil, level, err
	}
	stderr.form.set(cfg.Log.Format)
	return zap.New(&logCore{LevelEnabler: level, out: stderr, form: &stderr.form}), level, nil
}

// sources returns the sources of the configuration. args are a URL of the server, or its command behind --.
func (s *settings) sources(args []string) config.Sources {
	all := config.Sources{
		File: s.configFile(), Environ: os.Environ(),
		Flags: func(cfg *config.Config, l *setting.Layers) { s.lay(cfg, l, args) },
	}
	if s.cmd.Flags().Lookup("server") != nil {
		all.Server = &s.chosen
	}
	return all
}

// laySignIn writes the values of the flags of a sign-in into cfg.
func (s *settings) laySignIn(cfg *config.Config, l *setting.Layers) {
	auth := &cfg.Upstream.Auth
	used := "" // the first flag that sets something
	for _, o := range s.oauth {
		name, value, ok := strings.Cut(o, "=")
		if !ok {
			l.Add(setting.Mistake{Where: "--oauth", Text: "expected NAME=VALUE, such as client_id=my-client"})
			continue
		}
		if err := auth.Set(name, value); err != nil {
			l.Add(setting.Mistake{Where: "--oauth", Text: err.Error()})
			continue
		}
		l.Flag("upstream.auth."+name, "--oauth")
		used = "--oauth"
	}
	if s.cmd.Flags().Changed("profile") {
		auth.Profile = s.profile
		l.Flag("upstream.auth.profile", "--profile")
		used = cmp.Or(used, "--profile")
	}
	if used != "" && s.cmd.Name() == "serve" && !auth.Lends() {
		l.Add(setting.Mistake{Where: used, Text: "has no effect without a sign-in in upstream.auth of the configuration; dragoman stdio signs in without it"})
	}
	if !s.shim {
		return
	}
	auth.Browser = true
	given := false
	for name := range cfg.Upstream.Headers {
		given = given || strings.EqualFold(name, "Authorization")
	}
	switch {
	case s.login == "never":
		auth.Type = config.AuthNone
	case s.login == "auto":
		auth.Type = config.AuthLogin
	case s.login != "":
		l.Add(setting.Mistake{Where: "--login", Text: fmt.Sprintf("expected auto or never, not %q", s.login)})
	case auth.Type == "" && !given && cfg.Upstream.URL != "" && asksHTTP(cfg.Upstream.URL):
		auth.Type = config.AuthLogin
	}
	if s.login != "" {
		l.Flag("upstream.auth.type", "--login")
	}
}

// signInFlags are the flags of a sign-in to a server.
func signInFlags(s *settings) {
	f := s.cmd.Flags()
	f.StringArrayVar(&s.oauth, "oauth", nil, "a setting of upstream.auth as NAME=VALUE, such as client_id=… or scopes='read write'; repeatable")
	f.StringVar(&s.profile, "profile", "", "a name for one of several accounts at one server")
}

// shimFlags are signInFlags and whether to sign in at all.
func shimFlags(s *settings) {
	signInFlags(s)
	s.shim = true
	s.cmd.Flags().StringVar(&s.login, "login", "", "auto: sign in if the server at URL requires it; never: do not (default auto, unless --header sets Authorization)")
}

// asksHTTP reports whether a URL is one of HTTP; config.Validate says what is wrong with others.
func asksHTTP(server string) bool {
	u, err := url.Parse(server)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http")
}
