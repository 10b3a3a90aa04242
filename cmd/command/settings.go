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
	port      uint16
	hosts     []string
	cors      []string
	upstream  string
	transport string
	version   string
	headers   []string
	headFile  string
	bearerEnv string
	passEnv   []string
	env       []string
	cwd       string
	adapters  []string
	share     bool
	maxTokens int
	ca        string
	verify    string
	oauth     []string
	profile   string
	login     string
	record    string
	inspect   bool
	open      bool
	logLevel  string
	taken     int // arguments before -- that are of the command itself

	// shim says that the one client's user is at this machine.
	shim bool
}

// A flagGroup adds a group of flags to a command.
type flagGroup func(*settings)

func listenFlags(s *settings) {
	f := s.cmd.Flags()
	f.StringVar(&s.listen, "listen", "", "address that clients connect to: host:port, a port at 127.0.0.1, or unix:/run/dragoman.sock for a unix socket (default 127.0.0.1:8808)")
	f.Uint16Var(&s.port, "port", 0, "port at 127.0.0.1 that clients connect to, 0 for a free one")
	f.StringArrayVar(&s.cors, "cors", nil, "origin of web pages that may connect, '*' or none for every page; repeatable (cors.origins)")
	f.Lookup("cors").NoOptDefVal = "*"
	f.StringArrayVar(&s.hosts, "allow-host", nil, "name of this machine in the clients' URLs, if other machines use one; repeatable (allowed_hosts)")
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
	f.StringVar(&s.headFile, "header-file", "", "file with headers for requests to the server, one a line as 'Name: value', read again when it changes (upstream.header_file)")
	f.StringVar(&s.bearerEnv, "bearer-env", "", "environment variable with the token that requests to the server have as 'Authorization: Bearer'")
	f.StringVar(&s.verify, "verify", "", "none: accept any certificate of the server at URL, without a login and for this machine alone (upstream.verify)")
	f.BoolVar(&s.share, "share-child", false, "share one process of COMMAND between all sessions, for servers known to be stateless")
	f.StringArrayVar(&s.passEnv, "pass-env", nil, "pass to COMMAND only this variable of dragoman's environment, beside those that programs need (default: all but secrets of dragoman's own); repeatable")
	f.StringArrayVarP(&s.env, "env", "e", nil, "further variable for COMMAND, NAME=VALUE, or NAME for the value in dragoman's environment; repeatable")
	f.StringVar(&s.cwd, "cwd", "", "working directory of COMMAND (default dragoman's)")
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
		err := noServer(s.cmd, s.configFile())
		if at := slices.DeleteFunc(slices.Clone(s.cors), func(at string) bool { return at == "*" }); len(at) > 0 {
			err = fmt.Errorf("%w; --cors takes %s as the origin of pages: a server there is %[2]s/", err, at[0])
		}
		return cfg, err
	}
	return cfg, nil
}

// lay writes the values of the flags into cfg.
func (s *settings) lay(cfg *config.Config, l *setting.Layers, args []string) {
	server, command, err := s.server(args)
	if u := (config.Upstream{Command: command, Dir: cmp.Or(s.cwd, cfg.Upstream.Dir)}); len(command) > 0 && u.Quoted() {
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
	cfg.AllowedHosts = append(cfg.AllowedHosts, s.hosts...)
	cfg.CORS.Origins = append(cfg.CORS.Origins, s.cors...)
	for _, host := range s.hosts {
		_, at, url := strings.Cut(host, "://")
		if !url {
			at = host
		}
		if at, _, path := strings.Cut(at, "/"); path {
			l.Add(setting.Mistake{Where: "--allow-host", Text: "a host has no path: write " + at[strings.LastIndexByte(at, '@')+1:]})
		}
	}
	cfg.Upstream.ShareChild = cfg.Upstream.ShareChild || s.share
	for path, flag := range map[string]string{"adapters.sources": "adapters", "allowed_hosts": "allow-host", "cors.origins": "cors", "upstream.share_child": "share-child"} {
		if s.cmd.Flags().Changed(flag) {
			l.Flag(path, "--"+flag)
		}
	}
	for _, f := range []struct {
		field             *string
		value, path, flag string
	}{
		{&cfg.Listen, s.listen, "listen", "--listen"},
		{&cfg.Upstream.Dir, s.cwd, "upstream.dir", "--cwd"},
		{&cfg.Upstream.Transport, s.transport, "upstream.transport", "--upstream-transport"},
		{&cfg.Upstream.CAFile, s.ca, "upstream.ca_file", "--ca"},
		{&cfg.Upstream.Verify, s.verify, "upstream.verify", "--verify"},
		{&cfg.Upstream.Version, s.version, "upstream.version", "--upstream-version"},
		{&cfg.Log.Level, s.logLevel, "log.level", "--log-level"},
		{&cfg.Record.File, s.record, "record.file", "--record"},
	} {
		if f.value != "" {
			*f.field = f.value
			l.Flag(f.path, f.flag)
		}
	}
	if s.cmd.Flags().Changed("port") {
		if s.listen != "" {
			l.Add(errors.New("--listen and --port exclude each other: keep one"))
		}
		cfg.Listen = fmt.Sprintf("127.0.0.1:%d", s.port)
		l.Flag("listen", "--port")
	} else if number().MatchString(s.listen) {
		cfg.Listen = "127.0.0.1:" + s.listen
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
		name = strings.TrimSpace(name)
		if s.bearerEnv != "" && strings.EqualFold(name, "Authorization") {
			l.Add(setting.Mistake{Where: "--bearer-env", Text: "--header sets Authorization, too: keep one"})
		}
		cfg.Upstream.SetHeader(name, strings.TrimSpace(value))
		l.Flag("upstream.headers", "--header")
		l.Flag("upstream.headers."+name, "--header")
	}
	switch {
	case !s.cmd.Flags().Changed("bearer-env"):
	case len(cfg.Upstream.Command) > 0:
		l.Add(setting.Mistake{Where: "--bearer-env", Text: "applies only to a server at a URL; a command reads the variable itself"})
	case variableName().MatchString(s.bearerEnv):
		cfg.Upstream.SetHeader("Authorization", "Bearer ${"+s.bearerEnv+"}")
		cfg.Upstream.HeadersFrom = "--bearer-env"
		l.Flag("upstream.headers.Authorization", "--bearer-env")
	default: // it may be the secret
		l.Add(setting.Mistake{Where: "--bearer-env", Text: "expected the name of an environment variable, such as TOKEN, not the token"})
	}
	s.laySignIn(cfg, l)
	s.layEnv(cfg, l, len(command) > 0)
}

// layEnv writes the variables of the server's command into cfg. typed says that the command is on the command line: then its variables
// are those of dragoman itself, as without dragoman before it. A client that starts dragoman stdio puts them there in any case.
func (s *settings) layEnv(cfg *config.Config, l *setting.Layers, typed bool) {
	u := &cfg.Upstream
	whole := s.shim && slices.Equal(u.PassEnv, upstream.DefaultEnv()) || typed && l.Origin("upstream.pass_env") == ""
	switch {
	case len(s.passEnv) > 0:
		u.PassEnv = append(u.PassEnv, s.passEnv...)
		l.Flag("upstream.pass_env", "--pass-env")
	case whole:
		u.PassEnv = append(u.PassEnv, "*")
	}
	for flag, given := range map[string]bool{"--env": len(s.env) > 0, "--cwd": s.cwd != ""} {
		if u.URL != "" && given {
			l.Add(setting.Mistake{Where: flag, Text: "applies only to a server's COMMAND"})
		}
	}
	u.Given = make(map[string]string)
	for _, e := range s.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			value, ok = os.LookupEnv(name)
		}
		switch {
		case name == "" || strings.ContainsAny(name, " \t\r\n"): // which may be a secret
			l.Add(setting.Mistake{Where: "--env", Text: "expected NAME=VALUE, or the NAME of a variable"})
			continue
		case !ok:
			l.Add(setting.Mistake{Where: "--env", Text: "environment variable " + config.AsTyped([]string{name}) + " is not set"})
			continue
		}
		if u.Env == nil {
			u.Env = make(map[string]string)
		}
		u.Env[name], u.Given[name] = "", value
		l.Flag("upstream.env."+name, "--env")
	}
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
	case len(before) > 1 && looksLikeURL(before[0]) && slices.Contains(s.cors, "*"):
		return "", nil, fmt.Errorf("two URLs are given, %s and %s: an origin of --cors has no path, not even /", config.AsTyped(before[:1]), config.AsTyped(before[1:2]))
	case len(before) > 1 && looksLikeURL(before[0]) && number().MatchString(before[1]) && s.cmd.Name() == "stdio":
		return "", nil, fmt.Errorf("%s follows the server's URL, as in a line of mcp-remote: leave it out; for a client that is registered with this port: --oauth redirect_uri=http://localhost:%[1]s/oauth/callback; or dragoman as mcp-remote …", before[1])
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
		File: s.configFile(), Environ: os.Environ(), Headers: s.headFile,
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
	switch {
	case s.login == "never":
		auth.Type = config.AuthNone
	case s.login == "auto", s.login == "device":
		auth.Type, auth.Device = config.AuthLogin, s.login == "device"
	case s.login != "":
		l.Add(setting.Mistake{Where: "--login", Text: fmt.Sprintf("expected auto, device or never, not %q", s.login)})
	case auth.Type == "" && !cfg.Upstream.SetsAuthorization() && cfg.Upstream.URL != "" && asksHTTP(cfg.Upstream.URL):
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
	f.StringVar(&s.ca, "ca", "", "PEM file of the authorities that the server's certificate is verified with, instead of the system's (upstream.ca_file)")
	f.StringVar(&s.profile, "profile", "", "a name for one of several accounts at one server")
}

// shimFlags are signInFlags and whether to sign in at all.
func shimFlags(s *settings) {
	signInFlags(s)
	s.shim = true
	s.cmd.Flags().StringVar(&s.login, "login", "", "auto: sign in in a browser if the server at URL requires it; device: with a code that is typed on any device; never: do not (default auto, unless --header sets Authorization)")
}

// asksHTTP reports whether a URL is one of HTTP; config.Validate says what is wrong with others.
func asksHTTP(server string) bool {
	u, err := url.Parse(server)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http")
}
