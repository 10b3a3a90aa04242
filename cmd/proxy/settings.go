package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy"
)

// settings are the flags of a command; each stands above what the environment
// and the configuration file say.
type settings struct {
	cmd       *cobra.Command
	file      string
	listen    string
	upstream  string
	transport string
	version   string
	headers   []string
	passEnv   []string
	adapters  []string
	share     bool
	logLevel  string
}

// which groups of flags a command has.
type flagGroup func(*settings)

func listenFlags(s *settings) {
	s.cmd.Flags().StringVar(&s.listen, "listen", "", "address that clients connect to (default 127.0.0.1:8808)")
}

func upstreamFlags(s *settings) {
	f := s.cmd.Flags()
	f.StringVar(&s.upstream, "upstream", "", "URL of the server's Streamable HTTP endpoint, or of its HTTP+SSE stream")
	f.StringVar(&s.transport, "upstream-transport", "", "http, sse, stdio, or auto to find out (default auto)")
	f.StringVar(&s.version, "upstream-version", "", "the only protocol revision to propose to the server (default: the newest, and older ones to a server that refuses it)")
	f.StringArrayVar(&s.headers, "header", nil, "header for requests to the server, 'Name: value'; ${NAME} stands for the environment's value; repeatable")
	f.BoolVar(&s.share, "share-child", false, "one process of COMMAND for all sessions, for servers known to be stateless")
	f.StringArrayVar(&s.passEnv, "pass-env", nil, "further environment variable that COMMAND gets, '*' for all; repeatable")
}

func adapterFlags(s *settings) {
	s.cmd.Flags().StringArrayVar(&s.adapters, "adapters", nil, "directory or file of adapters, served beside the server's tools or alone; repeatable")
}

// newSettings gives cmd its flags.
func newSettings(cmd *cobra.Command, groups ...flagGroup) *settings {
	s := &settings{cmd: cmd}
	f := cmd.Flags()
	f.StringVar(&s.file, "config", "", "configuration file (YAML)")
	f.StringVar(&s.logLevel, "log-level", "", "debug, info, warn or error (default info)")
	for _, g := range groups {
		g(s)
	}
	return s
}

// configFile is the configuration file, "" for none.
func (s *settings) configFile() string {
	if s.file != "" {
		return s.file
	}
	return os.Getenv("DRAGOMAN_CONFIG")
}

// config is what the defaults, the file, the environment and the flags make
// together. command is what stands behind the flags' end.
func (s *settings) config(command []string) (proxy.Config, error) {
	cfg := proxy.DefaultConfig()
	if file := s.configFile(); file != "" {
		if err := cfg.Load(file); err != nil {
			return cfg, err
		}
	}
	if err := cfg.LoadEnv(os.LookupEnv); err != nil {
		return cfg, err
	}
	if err := s.lay(&cfg, command); err != nil {
		return cfg, err
	}
	if err := cfg.Expand(os.LookupEnv); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// lay lays the flags over cfg.
func (s *settings) lay(cfg *proxy.Config, command []string) error {
	if s.upstream != "" && len(command) > 0 {
		return errors.New("--upstream and a command exclude each other")
	}
	if s.upstream != "" {
		cfg.Upstream.URL, cfg.Upstream.Command, cfg.Upstream.ShareChild = s.upstream, nil, false
	}
	if len(command) > 0 {
		if s.cmd.ArgsLenAtDash() != 0 {
			return fmt.Errorf("write -- before the server's command: dragoman %s -- %s", s.cmd.Name(), strings.Join(command, " "))
		}
		cfg.Upstream.URL, cfg.Upstream.Command = "", command
	}
	cfg.Adapters.Sources = append(cfg.Adapters.Sources, s.adapters...)
	cfg.Upstream.ShareChild = cfg.Upstream.ShareChild || s.share
	set(&cfg.Listen, s.listen)
	set(&cfg.Upstream.Transport, s.transport)
	set(&cfg.Upstream.Version, s.version)
	set(&cfg.Log.Level, s.logLevel)
	for _, h := range s.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return errors.New("--header: must be 'Name: value'") // what it is may be a secret
		}
		if cfg.Upstream.Headers == nil {
			cfg.Upstream.Headers = make(map[string]string)
		}
		cfg.Upstream.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	cfg.Upstream.PassEnv = append(cfg.Upstream.PassEnv, s.passEnv...)
	return nil
}

func set(field *string, flag string) {
	if flag != "" {
		*field = flag
	}
}

// logger writes JSON to stderr: stdout belongs to clients.
func logger(cfg proxy.Config) (*zap.Logger, error) {
	log, _, err := adjustableLogger(cfg)
	return log, err
}

// adjustableLogger is a logger with a level that can be changed later.
func adjustableLogger(cfg proxy.Config) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(cfg.Log.Level)
	if err != nil {
		return nil, level, err
	}
	core := zapcore.NewCore(logEncoder(), zapcore.Lock(os.Stderr), level)
	return zap.New(core), level, nil
}

// logEncoder is the form of a line in the log.
func logEncoder() zapcore.Encoder {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return zapcore.NewJSONEncoder(enc)
}
