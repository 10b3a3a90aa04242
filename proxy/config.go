package proxy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/setting"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/transform/footprint"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Config is everything that can be set. [DefaultConfig] gives the values that
// stand where nobody said anything else; a file, the environment and flags are
// laid over it, in this order.
type Config struct {
	// Listen is the address that HTTP clients connect to.
	Listen string `yaml:"listen"`
	// Path is where the MCP endpoint is.
	Path string `yaml:"path"`
	// SSEPath and MessagesPath are where clients on HTTP+SSE open their stream
	// and post their messages.
	SSEPath      string `yaml:"sse_path"`
	MessagesPath string `yaml:"messages_path"`
	// AllowedHosts are names other than the loopback ones and the listen
	// address that a Host or Origin header may carry.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// Heartbeat is how often a comment is sent on a quiet stream; 0 for never.
	Heartbeat time.Duration `yaml:"heartbeat"`

	Auth     AuthConfig     `yaml:"auth"`
	TLS      TLSConfig      `yaml:"tls"`
	Admin    AdminConfig    `yaml:"admin"`
	Upstream UpstreamConfig `yaml:"upstream"`
	Adapters AdaptersConfig `yaml:"adapters"`
	// Gates let parameters of the server's tools through while it supports them.
	Gates []GateConfig `yaml:"gates"`
	// Contract holds the switches of the translation.
	Contract translate.Options `yaml:"contract"`
	Session  SessionConfig     `yaml:"session"`
	Bridge   BridgeConfig      `yaml:"bridge"`
	// Transform makes results fit for the model; nil leaves them alone.
	Transform *transform.Config `yaml:"transform"`
	Footprint FootprintConfig   `yaml:"footprint"`
	Limits    LimitsConfig      `yaml:"limits"`
	Log       LogConfig         `yaml:"log"`
	Shutdown  ShutdownConfig    `yaml:"shutdown"`
}

// AuthConfig says whom a listener lets in.
type AuthConfig struct {
	// Tokens are what HTTP clients must send one of; none lets everyone in.
	// Values may hold ${NAME} and are secrets: they are never logged.
	Tokens []string `yaml:"tokens"`
	// TokenFile holds further tokens, one a line.
	TokenFile string `yaml:"token_file"`
	// TrustNetwork says that everyone who reaches the listener may use the
	// credentials that we have for the server.
	TrustNetwork bool `yaml:"trust_network"`
}

// TLSConfig names the files of the certificate that HTTP clients are shown, and
// of its key; "" for plain HTTP.
type TLSConfig struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// AdminConfig is for those who run the proxy.
type AdminConfig struct {
	// Listen is the address of probes and metrics; "" for none.
	Listen string `yaml:"listen"`
}

// UpstreamConfig says which server is behind the proxy: URL or Command.
type UpstreamConfig struct {
	// URL is the server's Streamable HTTP endpoint.
	URL string `yaml:"url"`
	// Transport is how the server at URL is spoken to: http, sse, or auto to
	// find out.
	Transport string `yaml:"transport"`
	// Command starts the server, which then speaks on its stdin and stdout.
	Command []string `yaml:"command"`
	// Dir is the directory Command is started in; "" is our own.
	Dir string `yaml:"dir"`
	// PassEnv names the variables of our environment that Command gets. A * in a
	// name stands for any characters, but never for our own DRAGOMAN_ ones.
	PassEnv []string `yaml:"pass_env"`
	// Env is what Command gets beside them. Values may hold ${NAME}.
	Env map[string]string `yaml:"env"`
	// Headers go with every HTTP request to the server. Values may hold
	// ${NAME} and are secrets: they are never logged.
	Headers map[string]string `yaml:"headers"`
	// CAFile holds the certificates that the server's is verified with, in the
	// place of the system's; "" for those.
	CAFile string `yaml:"ca_file"`
	// ClientCert and ClientKey are files of the certificate that we show the
	// server; "" for none.
	ClientCert string `yaml:"client_cert"`
	ClientKey  string `yaml:"client_key"`
	// Version is the protocol revision that the server speaks; "" finds out
	// whether it has a handshake, and proposes the newest revision with one, or an
	// older one where the server refuses that.
	Version string `yaml:"version"`
	// ConnectTimeout bounds dialling and the TLS handshake.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// HandshakeTimeout bounds the wait for the answer to initialize.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout"`
	// SilenceTimeout bounds the wait for the first byte of an answer, and then
	// for the next one. limits.time may say otherwise.
	SilenceTimeout time.Duration `yaml:"silence_timeout"`
	// ShareChild makes all sessions share one process of Command, which is known to
	// keep nothing of a session. It can ask clients nothing, and its log messages
	// go to none.
	ShareChild bool `yaml:"share_child"`
	// Restart says what becomes of a session whose Command has ended by itself.
	Restart RestartConfig `yaml:"restart"`
}

// RestartConfig says how a server's process that has ended by itself is started
// again. Its session goes on; the calls that were in flight fail.
type RestartConfig struct {
	// Max is how often in a row, with none that lived for a minute between; then
	// the session ends. 0 ends it at once.
	Max int `yaml:"max"`
	// Wait is how long to wait before the first one. It doubles from one to the
	// next, up to MaxWait.
	Wait    time.Duration `yaml:"wait"`
	MaxWait time.Duration `yaml:"max_wait"`
}

// SessionConfig bounds what is remembered of clients.
type SessionConfig struct {
	// IdleTimeout ends a session that nothing was heard of; one that the server
	// knows by itself is only forgotten, until it is heard of again.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// Max is the greatest number of sessions held at one time.
	Max int `yaml:"max"`
	// MaxProcesses is the greatest number of a server's processes at one time.
	MaxProcesses int `yaml:"max_processes"`
	// MaxAge ends every session that began so long ago.
	MaxAge time.Duration `yaml:"max_age"`
	// KeyFile holds the key that session ids are sealed with: 32 bytes in base64
	// or hex. With a second key on a second line, the first one seals and both
	// open. "" makes a key that ends with the process.
	KeyFile string `yaml:"key_file"`
}

// BridgeConfig is about clients that have no session, in front of a server that
// wants one, and the other way round.
type BridgeConfig struct {
	// Principal says on whose behalf a request comes: "authorization" is whoever
	// sends this Authorization header, "header:NAME" whoever a trusted proxy names
	// in that header. Two principals never share a session with the server; the calls of
	// one client do, and its newest call carries what the server asks. Requests without a
	// principal are told apart by the address and the clientInfo that they come from:
	// behind a balancer only "header:NAME" tells their clients apart.
	// "claim:iss+sub" is "authorization", but what the server asks in the middle of a
	// call may be answered by whoever has these claims of its JWT in common, once the
	// server at upstream.url has let the new token in; nobody verifies it here.
	Principal string `yaml:"principal"`
	// MaxSessions is how many sessions with the server are held, and IdleTimeout
	// how long one that nobody uses. No principal uses more of them than are left for
	// all the others; nor, where nothing vouches for the principal (neither a token of
	// this listener nor a trusted proxy), does an address. A call waits up to 10 s for one.
	MaxSessions int           `yaml:"max_sessions"`
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxParked is how many calls may wait for their client to answer what the
	// server asked, and ParkTimeout how long one may. They are shared out as sessions are.
	MaxParked   int           `yaml:"max_parked"`
	ParkTimeout time.Duration `yaml:"park_timeout"`
	// Peers are the addresses, host:port, that the other replicas listen at for
	// clients; the name of a headless service stands for all of its addresses. A
	// request that another replica holds the call or the session of is forwarded
	// there. They know each other by session.key_file, which must be set. None
	// forwards nothing, and takes in nothing.
	Peers []string `yaml:"peers"`
	// PeerCAFile holds the certificates that those of other replicas are verified
	// with where the listener speaks TLS; "" for the system's. One that shows the
	// very certificate that we show is good as it is.
	PeerCAFile string `yaml:"peer_ca_file"`
	// Coalesce is how long we wait for further questions before a client is asked.
	Coalesce time.Duration `yaml:"coalesce"`
	// OpenedTimeout is how long a call that had to wait for URLs to be opened waits
	// for the server to say that they were, once the client has.
	OpenedTimeout time.Duration `yaml:"opened_timeout"`
	// TTL is how long clients may keep lists and resources, and Public says that
	// they may share them. Zero and false where the server is not known to allow it.
	TTL    time.Duration `yaml:"ttl"`
	Public bool          `yaml:"public"`
	// DefaultLogLevel is that of the log messages which a client with a session gets
	// from a server without one before it has named a level; "off" for none.
	DefaultLogLevel string `yaml:"default_log_level"`
	// Cache is of lists and resources, towards clients of either kind. What a server
	// with sessions sends is kept for TTL, and for the principal that asked for it.
	Cache CacheConfig `yaml:"cache"`
}

// CacheConfig bounds the results that we keep to give them again.
type CacheConfig struct {
	// Bytes is how much of them there may be; 0 keeps none. One result is never more
	// than a quarter of it.
	Bytes Size `yaml:"bytes"`
	// Entries is how many of them there may be.
	Entries int `yaml:"entries"`
}

func (c CacheConfig) bounds() results.Bounds {
	return results.Bounds{Bytes: int64(c.Bytes), Entries: c.Entries}
}

// LimitsConfig bounds what peers may send.
type LimitsConfig struct {
	// ClientMessage and UpstreamMessage are the greatest size of one message.
	ClientMessage   Size `yaml:"client_message"`
	UpstreamMessage Size `yaml:"upstream_message"`
	// Time says, by method, how long the server may take where that is not
	// upstream.silence_timeout.
	Time map[string]TimeLimit `yaml:"time"`
	// Batch is the greatest number of messages in one array.
	Batch int `yaml:"batch"`
	// OpenRequests is how many requests may wait for their answer, per
	// direction and session.
	OpenRequests int `yaml:"open_requests"`
	// Requests is how many messages of HTTP clients may be in hand at one time,
	// and InHand how many bytes of them; past that they wait a little. 0 stands for half
	// of the memory that this process may have, or 512 MiB where it has no limit.
	Requests int  `yaml:"requests"`
	InHand   Size `yaml:"in_hand"`
	// Connections is how many connections of HTTP clients may be open.
	Connections int `yaml:"connections"`
	// Header is the greatest size of an HTTP request's line and headers.
	Header Size `yaml:"header"`
	// Queue is how many messages wait for a client that has no stream open,
	// and QueueBytes how much of them, per session.
	Queue      int  `yaml:"queue"`
	QueueBytes Size `yaml:"queue_bytes"`
	// Replay is how many of the last events of a stream are kept, in front of a
	// server on stdio or HTTP+SSE, for a client that was cut off and takes the
	// stream up again; 0 for none. ReplayBytes is how much of them, and ReplayTime
	// how long after the client has left.
	Replay      int           `yaml:"replay"`
	ReplayBytes Size          `yaml:"replay_bytes"`
	ReplayTime  time.Duration `yaml:"replay_time"`
}

// inHand is InHand, or what 0 stands for.
func (c LimitsConfig) inHand() int64 {
	if c.InHand > 0 {
		return int64(c.InHand)
	}
	if limit := memlimit.Read(); limit > 0 {
		return limit / 2
	}
	return 512 << 20
}

// TimeLimit is how long the server may take to answer; 0 for the common limit.
type TimeLimit struct {
	// FirstByte is until it begins to answer, Silence between any two signs of
	// life after that. Progress is one, and so is a comment on the stream.
	FirstByte time.Duration `yaml:"first_byte"`
	Silence   time.Duration `yaml:"silence"`
}

// LogConfig says what is written to stderr.
type LogConfig struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Losses is "summary" (the first of a kind at once, repeats as one line a
	// minute) or "every".
	Losses string `yaml:"losses"`
}

// ShutdownConfig bounds the end.
type ShutdownConfig struct {
	// Drain is how long calls in flight may go on.
	Drain time.Duration `yaml:"drain"`
}

// DefaultConfig is the configuration where nothing was set.
func DefaultConfig() Config {
	return Config{
		Listen:       "127.0.0.1:8808",
		Path:         "/mcp",
		SSEPath:      "/sse",
		MessagesPath: "/messages",
		Heartbeat:    15 * time.Second,
		Admin:        AdminConfig{Listen: "127.0.0.1:8809"},
		Upstream: UpstreamConfig{
			PassEnv:          upstream.DefaultEnv(),
			Transport:        string(upstream.Auto),
			ConnectTimeout:   5 * time.Second,
			HandshakeTimeout: time.Minute,
			SilenceTimeout:   5 * time.Minute,
			Restart:          RestartConfig{Max: 5, Wait: time.Second, MaxWait: 30 * time.Second},
		},
		Adapters: defaultAdapters(),
		Contract: translate.Options{
			ResourceContentsName: "on",
			StripMode:            "strict",
			ElicitationFallback:  "error",
			CompletionsFor24:     "auto",
			Tasks:                "bridge",
			SchemaDialect:        "auto",
		},
		Footprint: FootprintConfig{MaxBytes: footprint.DefaultBudget, Hoist: "off"},
		Session:   SessionConfig{IdleTimeout: 30 * time.Minute, Max: 10_000, MaxProcesses: 64, MaxAge: 24 * time.Hour},
		Bridge: BridgeConfig{
			Principal: "authorization", MaxSessions: 10_000, IdleTimeout: 5 * time.Minute,
			MaxParked: 1000, ParkTimeout: 10 * time.Minute, Coalesce: 30 * time.Millisecond, OpenedTimeout: 2 * time.Second,
			DefaultLogLevel: "info", Cache: CacheConfig{Entries: 10_000},
		},
		Limits: LimitsConfig{
			ClientMessage:   10 << 20,
			UpstreamMessage: 64 << 20,
			Batch:           100,
			OpenRequests:    1024,
			Requests:        4096,
			Connections:     10_000,
			Header:          16 << 10,
			Queue:           256,
			QueueBytes:      1 << 20,
			Replay:          256,
			ReplayBytes:     1 << 20,
			ReplayTime:      5 * time.Minute,
		},
		Log:      LogConfig{Level: "info", Losses: "summary"},
		Shutdown: ShutdownConfig{Drain: 10 * time.Second},
	}
}

// ConfigSources are what a configuration is made of. Each stands above those before it,
// and all of them above the defaults.
type ConfigSources struct {
	File    string                         // YAML; "" for none
	Environ []string                       // "NAME=value"; those of [EnvPrefix] count
	Flags   func(*Config, *setting.Layers) // what the command line says; nil for nothing
}

// EnvPrefix begins the names of our variables: limits.batch is DRAGOMAN_LIMITS_BATCH.
const EnvPrefix = "DRAGOMAN_"

// EnvFile is the variable that names the configuration file.
const EnvFile = EnvPrefix + "CONFIG"

// Read makes the configuration. The error tells every mistake: where it is, the path of
// the setting, what was expected.
func (s ConfigSources) Read() (Config, error) {
	c := DefaultConfig()
	layers := setting.Over(&c)
	if s.File != "" {
		text, err := os.ReadFile(s.File)
		if err != nil {
			return c, fmt.Errorf("configuration file: %w", err)
		}
		layers.File(s.File, text)
	}
	layers.Env(EnvPrefix, s.Environ, []string{EnvFile})
	if s.Flags != nil {
		s.Flags(&c, layers)
	}
	layers.Add(c.Expand(func(name string) (string, bool) {
		layers.Forgive(name)
		return lookup(s.Environ, name)
	}))
	layers.Add(c.Validate())
	return c, layers.Err()
}

// lookup finds a variable; of two with one name the last counts.
func lookup(environ []string, name string) (value string, ok bool) {
	for _, entry := range environ {
		if key, v, found := strings.Cut(entry, "="); found && key == name {
			value, ok = v, true
		}
	}
	return value, ok
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// keys calls do with the path of every setting of c ("limits.batch") and the
// place it is kept in.
func (c *Config) keys(do func(path string, v reflect.Value) error) error {
	return keysOf(reflect.ValueOf(c).Elem(), "", do)
}

func keysOf(v reflect.Value, path string, do func(string, reflect.Value) error) error {
	for i := range v.NumField() {
		p := join(path, v.Type().Field(i).Tag.Get("yaml"))
		f := v.Field(i)
		var err error
		if f.Kind() == reflect.Struct {
			err = keysOf(f, p, do)
		} else {
			err = do(p, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Expand puts the environment's values in the place of ${NAME} in the settings
// that may hold secrets. Each name that is not set is a mistake.
func (c *Config) Expand(lookup func(name string) (string, bool)) error {
	var all setting.Mistakes
	for _, m := range []struct {
		path   string
		values map[string]string
	}{{"upstream.headers", c.Upstream.Headers}, {"upstream.env", c.Upstream.Env}} {
		for _, k := range slices.Sorted(maps.Keys(m.values)) {
			out, err := expand(m.values[k], lookup)
			if err != nil {
				all.Addf(m.path+"."+k, "%s", err)
			}
			m.values[k] = out
		}
	}
	for i, token := range c.Auth.Tokens {
		out, err := expand(token, lookup)
		if err != nil {
			all.Addf(fmt.Sprintf("auth.tokens[%d]", i), "%s", err)
		}
		c.Auth.Tokens[i] = out
	}
	return all.Err()
}

// expand replaces ${NAME}; a lone $ stands for itself, since secrets hold them.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", errors.New("${ without }")
		}
		value, ok := lookup(name)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		out.WriteString(value)
		s = after
	}
}

// Size is a number of bytes; in text also with a unit: 10MiB, 64KiB.
type Size int

// Form says what a size looks like in a configuration.
func (s *Size) Form() string { return "a size such as 64KiB, 10MiB or a number of bytes" }

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	number, shift := n.Value, 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if text, ok := strings.CutSuffix(n.Value, unit); ok {
			number, shift = strings.TrimSpace(text), by
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v < 0 || v > 1<<40>>shift {
		return fmt.Errorf("%q is not a size; write 64KiB, 10MiB or a number of bytes", n.Value)
	}
	*s = Size(v << shift)
	return nil
}
