package config

import (
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/openfiles"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/transform/footprint"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Config is everything that can be set.
type Config struct {
	// Listen is the address that HTTP clients connect to: host:port, or unix:/run/dragoman.sock for a unix socket (Linux and
	// macOS), at which Host is not checked and a client's address is its uid.
	Listen string `yaml:"listen"`
	// ListenMode is the mode of the unix socket of "listen", in octal digits: 0600 lets only dragoman's own user connect, 0660 its
	// group too, 0666 every user who can reach the file.
	ListenMode string `yaml:"listen_mode"`
	// Path is where the MCP endpoint is, with or without a slash at the end.
	Path string `yaml:"path"`
	// SSEPath is where clients on HTTP+SSE open their stream, which tells them that they post messages to /messages: below the path
	// of oauth.public_url, if that ends in Path.
	SSEPath string `yaml:"sse_path"`
	// HealthPaths are paths that answer "ok" with 200 while the process runs, to every host and without a token, as /healthz and /ping
	// always do. The server is not asked: /readyz says whether a client could be served.
	HealthPaths []string `yaml:"health_paths"`
	// AllowedHosts are names other than the loopback ones that a Host or Origin header may carry: those in the URLs that clients use,
	// such as mcp.example.com. A Host may also be the listen address or, where other machines can reach the listener, any IP address.
	// * allows every Host and every Origin: only where a proxy in front of dragoman checks them.
	AllowedHosts []string `yaml:"allowed_hosts"`
	OAuth        OAuth    `yaml:"oauth"`
	CORS         CORS     `yaml:"cors"`
	// Heartbeat is how often a comment is sent on a quiet stream, and after how long a response that is still to come begins as one,
	// for clients whose Accept names text/event-stream; 0 for never.
	Heartbeat time.Duration `yaml:"heartbeat"`

	Auth     Auth     `yaml:"auth"`
	TLS      TLS      `yaml:"tls"`
	Admin    Admin    `yaml:"admin"`
	Upstream Upstream `yaml:"upstream"`
	Adapters Adapters `yaml:"adapters"`
	// Credentials is the directory that OAuth tokens are stored in; "" for dragoman/credentials in the user's
	// configuration directory.
	Credentials string `yaml:"credentials"`
	// CredentialStore is auto, for files that are sealed if there is a keyring; keyring, for sealed files only; memory,
	// for tokens that are lost when the process ends; or store, for the server at store.url, where all replicas use them.
	CredentialStore string `yaml:"credential_store"`
	// Gates allow parameters of the server's tools only while the server supports them.
	Gates []Gate `yaml:"gates"`
	// Contract holds the switches of the translation.
	Contract translate.Options `yaml:"contract"`
	Session  Session           `yaml:"session"`
	Bridge   Bridge            `yaml:"bridge"`
	Store    Store             `yaml:"store"`
	// Transform makes results fit for the model. Without it they are left alone.
	Transform *transform.Config `yaml:"transform"`
	Footprint Footprint         `yaml:"footprint"`
	Limits    Limits            `yaml:"limits"`
	Inspect   Inspect           `yaml:"inspect"`
	Record    Record            `yaml:"record"`
	Telemetry Telemetry         `yaml:"telemetry"`
	Log       Log               `yaml:"log"`
	Shutdown  Shutdown          `yaml:"shutdown"`

	// Remarks are for the user. They change nothing.
	Remarks []Remark `yaml:"-"`
}

// OAuth sets which OAuth documents and endpoints of the server at Upstream.URL clients can reach
// through dragoman. dragoman adds no credential to these requests.
type OAuth struct {
	// Relay is metadata for the documents at the well-known paths, oauth for these and the
	// endpoints of a server that is its own authorization server, none for nothing.
	Relay string `yaml:"relay"`
	// Paths are further paths that the server's login pages use. One that ends in * stands for all paths
	// with this beginning.
	Paths []string `yaml:"paths"`
	// Forwarded tells the server of the client, by X-Forwarded-Host, -Proto and -For.
	Forwarded bool `yaml:"forwarded"`
	// OldClients gives clients of 2025-03-26, which do not read the metadata of a protected resource, a copy of the metadata of the
	// authorization server where the server has none of its own. Newer clients never ask for it.
	OldClients bool `yaml:"old_clients"`
	// PublicURL is the URL of the MCP endpoint that clients use; "" for the one in each request.
	PublicURL string `yaml:"public_url"`
	// Rewrite replaces the server's own URL by PublicURL in its challenge and its metadata. The server then gets tokens for
	// PublicURL. Set it only for a server that you run, whose public URL cannot be set, and whose authorization server
	// issues tokens for any URL or for this one.
	Rewrite bool `yaml:"rewrite"`
}

// CORS names the web pages that may call dragoman from a browser.
type CORS struct {
	// Origins are the origins of these pages, as in https://page.example, or * for all. A listed origin
	// passes the check of the Origin header.
	Origins []string `yaml:"origins"`
	// Headers are further headers of requests that these pages may send, beside those of MCP, Authorization, DPoP and traces.
	Headers []string `yaml:"headers"`
}

// Auth sets which clients a listener serves.
type Auth struct {
	// Tokens are bearer tokens, one of which each HTTP client must send; none serves every client. Values
	// may contain ${NAME}. They are secrets and never logged. Where other machines can reach the listener, a placeholder
	// (REPLACE) or a token of less than 16 characters is refused, unless trust_network is set.
	Tokens []string `yaml:"tokens"`
	// NamedTokens are further tokens, by names for adapters.tokens. Values may contain ${NAME}. They are
	// secrets and never logged.
	NamedTokens map[string]string `yaml:"named_tokens"`
	// TokenFile is a file with further tokens, one per line.
	TokenFile string `yaml:"token_file" file:"reload,secret"`
	// Header is a further header in which clients may send their token, such as X-API-Key. Authorization, as Bearer or as the token
	// alone, and X-Dragoman-Token are accepted in any case.
	Header string `yaml:"header"`
	// TrustNetwork allows every client that reaches the listener to use dragoman's credentials for the
	// server, and tokens that can be guessed.
	TrustNetwork bool `yaml:"trust_network"`

	// Unused says that the variable DRAGOMAN_TOKEN is set, and that no setting refers to it.
	Unused bool `yaml:"-"`

	// From has the source of each token, such as dragoman.yaml:3, by its path.
	From map[string]string `yaml:"-"`
}

// TLS names the PEM files of the listener's certificate and key; "" for plain HTTP.
type TLS struct {
	Cert string `yaml:"cert" file:"reload"`
	Key  string `yaml:"key" file:"reload,secret"`
}

// Admin is the listener of probes and metrics.
type Admin struct {
	// Listen is the address of probes and metrics; "" for none. If the default is in use, as by another dragoman, it is a free port of
	// 127.0.0.1, which the log line "serving" names.
	Listen string `yaml:"listen"`
	// Movable says that nothing sets Listen.
	Movable bool `yaml:"-"`
}

// The values of upstream.cookies.
const (
	CookiesOfBalancers = "balancers"
	AllCookies         = "all"
	NoCookies          = "none"
)

// Upstream sets the server: URL or Command.
type Upstream struct {
	// URL is the server's Streamable HTTP endpoint, or its stream of HTTP+SSE: http, https, or unix:/run/server.sock:/mcp for a unix
	// socket and the HTTP path behind it, where Host is localhost and there is neither TLS nor a login.
	URL string `yaml:"url"`
	// Transport is the transport of the server at URL: http, sse, or auto to find out.
	Transport string `yaml:"transport"`
	// Command starts the server, which reads its stdin and writes its stdout. It must stay in the foreground: when the process that
	// it has started ends, the server counts as ended, also if that process has put another one into the background.
	Command []string `yaml:"command"`
	// Dir is the working directory of Command; "" for that of dragoman.
	Dir string `yaml:"dir"`
	// Written is Command as a client's configuration has it, with the names of variables in the place of their values, which may be
	// secrets; nil for that of another file.
	Written []string `yaml:"-"`
	// PassEnv names the variables of dragoman's environment that Command gets. A * in a name stands for
	// any characters. It never passes DRAGOMAN_ variables, OTEL_*HEADERS, those of socket activation and credentials (LISTEN_FDS,
	// CREDENTIALS_DIRECTORY), nor variables that other settings (as ${NAME}) or adapter files read; their whole names do. Those of a
	// service manager (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID) are passed by Env only.
	PassEnv []string `yaml:"pass_env"`
	// SecretNames are the variables that settings other than Env, or adapter files, read.
	SecretNames []string `yaml:"-"`
	// Env are further variables for Command. Values may contain ${NAME}.
	Env map[string]string `yaml:"env"`
	// Given are those of Env whose values are used as they are.
	Given map[string]string `yaml:"-"`
	// Headers are sent with every HTTP request to the server. Values may contain ${NAME}. They are secrets
	// and never logged.
	Headers map[string]string `yaml:"headers"`
	// HeaderFile is a file with further headers, one a line as "Name: value"; lines that begin with # are comments. It is read again
	// when it changes. A header of the file replaces one of Headers, and --header replaces both.
	HeaderFile string `yaml:"header_file" file:"reload,secret"`
	// HeadersFrom says where Headers are from, if it is neither --header nor upstream.headers.
	HeadersFrom string `yaml:"-"`
	// Cookies says which cookies of the server further requests of the same session carry: balancers for those with which load
	// balancers find the server of a session again (AWSALB*, ARRAffinity*, GCLB, __cf_bm, __cflb, SERVERID, route), all for all,
	// also those of a login, none for none. Clients never get them.
	Cookies string `yaml:"cookies"`
	// PassHeaders names headers of the server's responses that clients get, beside WWW-Authenticate and Retry-After of refusals. They come
	// with the response to the same request over Streamable HTTP, if that is not from a cache and the session with the server is not
	// one of dragoman's own. A value over 2 KiB is left out.
	PassHeaders []string     `yaml:"pass_headers"`
	Auth        UpstreamAuth `yaml:"auth"`
	// CAFile is a PEM file of the authorities that the certificates of the server and of its authorization server are verified with;
	// "" for the system's and those in the file that the variable NODE_EXTRA_CA_CERTS names, if it is set.
	CAFile string `yaml:"ca_file" file:"reload"`
	// Verify is full; or none, which accepts any certificate of the server at URL, but not of its authorization server. none is refused
	// with a login or another Auth, on a listener that other machines reach, and in the variable DRAGOMAN_UPSTREAM_VERIFY.
	Verify string `yaml:"verify"`
	// Extra are the authorities that NODE_EXTRA_CA_CERTS adds to the system's. Its file is none of Files: whole environments have the
	// variable, and a process that names no file ends on SIGHUP.
	Extra ExtraCAs `yaml:"-"`
	// ClientCert and ClientKey are PEM files of the certificate that dragoman presents to the server; ""
	// for none.
	ClientCert string `yaml:"client_cert" file:"reload"`
	ClientKey  string `yaml:"client_key" file:"reload,secret"`
	// Version is the protocol revision that the server speaks. If it is "", dragoman finds out whether the server has
	// a handshake, and then proposes the newest revision with one, or an older one if the server refuses that.
	Version string `yaml:"version"`
	// ConnectTimeout bounds the wait for a connection to one of the server's addresses, and again for TLS. The search for
	// the name has 20 seconds of its own.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// DeadAfter is how long the server's machine may acknowledge nothing of what was sent. It is a constant, from which that of the
	// system's probes follows.
	DeadAfter time.Duration `yaml:"-"`
	// HandshakeTimeout bounds the wait for the answer to initialize. Most clients wait a minute.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout"`
	// SilenceTimeout bounds the wait for the first byte of an answer, and for each next one. limits.time
	// overrides it by method.
	SilenceTimeout time.Duration `yaml:"silence_timeout"`
	// KeepAlive is how long nothing is sent to a server before dragoman sends it a ping, for servers and balancers that end idle
	// sessions; 0 for never. A session still ends after session.idle_timeout. Servers of 2026-07-28 have no ping.
	KeepAlive time.Duration `yaml:"keepalive"`
	// UnreadTimeout is how long Command may read nothing of what waits on its stdin before it is ended. It is never ended
	// while a call is in flight that it may be busy with. 0 for never.
	UnreadTimeout time.Duration `yaml:"unread_timeout"`
	// ShareChild makes all sessions share one process of Command, for servers that keep nothing of a
	// session. The server cannot ask clients anything, and its log messages and notifications/elicitation/complete reach no client.
	ShareChild bool `yaml:"share_child"`
	// Restart says what becomes of a session whose Command has ended by itself.
	Restart Restart `yaml:"restart"`
}

// Restart sets how often a server's process that exits by itself is started again. Its session goes on;
// calls in flight fail.
type Restart struct {
	// Max is how many restarts in a row are tried before the session ends; a process that lives for a minute starts
	// the count anew. 0 ends the session at once.
	Max int `yaml:"max"`
	// Wait is the time before the first restart. It doubles for each further one, up to MaxWait. Both are constants:
	// a second is long enough for a crash that repeats, half a minute short enough for a server that comes back.
	Wait    time.Duration `yaml:"-"`
	MaxWait time.Duration `yaml:"-"`
}

// Session bounds the sessions with clients.
type Session struct {
	// IdleTimeout ends a session without messages. If the server keeps the session as well, dragoman only forgets it
	// until its next message.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// Max is the greatest number of open sessions.
	Max int `yaml:"max"`
	// MaxProcesses is the greatest number of a server's processes at one time.
	MaxProcesses int `yaml:"max_processes"`
	// MaxAge ends a session this long after it began.
	MaxAge time.Duration `yaml:"max_age"`
	// KeyFile is a file with the key that seals session ids: 32 bytes in base64 or hex. A second line may
	// have a second key: the first seals, both open. "" makes a key that ends with the process.
	KeyFile string `yaml:"key_file" file:"reload,secret"`
	// Without is refuse, or open: then requests over Streamable HTTP that name no session, of clients that send no initialize, are
	// answered. They share one session with the server for each principal and revision, as bridge.principal tells principals apart,
	// and for each address without one: its callers share the server's state. The server cannot ask them anything.
	Without string `yaml:"without"`
}

// What session.without may be.
const (
	WithoutRefuse = "refuse"
	WithoutOpen   = "open"
)

// Bridge sets how clients without sessions use a server with sessions, and the other way round.
type Bridge struct {
	// Principal says on whose behalf a request comes: "authorization" is the client with this Authorization header,
	// "header:NAME" the client that a trusted proxy names in that header. Two principals never share a session with
	// the server. The calls of one client do, and its newest call carries the questions of the server. Requests
	// without a principal are told apart by the address and the clientInfo that they come from: behind a balancer
	// only "header:NAME" tells their clients apart. "claim:iss+sub" is "authorization", but a client with the same
	// claims in another JWT may answer what the server asks in the middle of a call, once the server at upstream.url
	// has accepted the new token; dragoman does not verify it.
	Principal string `yaml:"principal"`
	// MaxSessions is how many sessions with the server are held. No principal uses more of them than are left for all
	// the others. If nothing vouches for the principal (neither a token of this listener nor a trusted proxy), the
	// same holds for its address. A call waits up to 10 s for a session.
	MaxSessions int `yaml:"max_sessions"`
	// IdleTimeout closes an unused session with the server, with its process where the server is on stdio.
	// The client's next call opens another.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// ParkTimeout bounds how long a call waits for its client to answer the server's question.
	ParkTimeout time.Duration `yaml:"park_timeout"`
	// MaxParked is how many calls may wait like that. It is a constant, because each holds a stream and a goroutine.
	// They are shared out as sessions are.
	MaxParked int `yaml:"-"`
	// Coalesce is how long dragoman waits for further questions of the server before it asks a client. It is a
	// constant, because servers ask several things at once or none.
	Coalesce time.Duration `yaml:"-"`
	// OpenedTimeout is how long a call waits for the server to report that URLs were opened, after the client has
	// reported it. It is a constant, because the call is made again afterwards in any case.
	OpenedTimeout time.Duration `yaml:"-"`
	// TTL is how long clients may keep lists and resources. Leave it at 0 unless the server is known to
	// allow that.
	TTL time.Duration `yaml:"ttl"`
	// DefaultLogLevel is the level of the log messages that a client with a session gets from a server without
	// sessions until the client sets a level; "off" for none.
	DefaultLogLevel string `yaml:"default_log_level"`
	// Cache is the cache of lists and resources, for clients of either kind. What a server with sessions sends is
	// kept for TTL, and for the principal that asked for it.
	Cache Cache `yaml:"cache"`
}

// Cache bounds the results that are kept and returned again.
type Cache struct {
	// Bytes is the greatest size of all kept results; 0 keeps none. One result takes a quarter of it at
	// most.
	Bytes Size `yaml:"bytes"`
	// Entries is the greatest number of kept results. It is a constant, which bounds what small results cost beside
	// their bytes.
	Entries int `yaml:"-"`
}

// Limits bounds messages.
type Limits struct {
	// ClientMessage and UpstreamMessage are the greatest size of one message.
	ClientMessage   Size `yaml:"client_message"`
	UpstreamMessage Size `yaml:"upstream_message"`
	// Time is how long the server may take, by method, where it is not upstream.silence_timeout.
	Time map[string]TimeLimit `yaml:"time"`
	// InHand is how many bytes of messages may be in memory at one time; further messages wait briefly and
	// are then refused. 0 is half of the memory that this process may have, or 512 MiB without a limit.
	InHand Size `yaml:"in_hand"`
	// Replay is how many of the last events of a stream are kept for clients that reconnect with
	// Last-Event-ID, in front of a server on stdio or HTTP+SSE; 0 for none.
	Replay int `yaml:"replay"`

	// The other limits are constants. They bound what a peer can make dragoman hold, far above what well-behaved
	// peers need, and InHand bounds all of it together.

	// Batch is the greatest number of messages in one array.
	Batch int `yaml:"-"`
	// OpenRequests is how many requests may wait for their answer, per
	// direction and session.
	OpenRequests int `yaml:"-"`
	// Requests is how many messages of HTTP clients may be in hand at one time.
	Requests int `yaml:"-"`
	// Connections is how many connections of HTTP clients may be open; see also OpenConnections.
	Connections int `yaml:"-"`
	// Streams is how many subscriptions of handshake clients may be open at a server without a handshake, each of which is a
	// connection; see also OpenStreams.
	Streams int `yaml:"-"`
	// Header is the greatest size of an HTTP request's line and headers: twice what servers commonly accept, because
	// tokens are long.
	Header Size `yaml:"-"`
	// Queue is how many messages wait for a client that has no stream open, and QueueBytes how many bytes of them,
	// per session.
	Queue      int  `yaml:"-"`
	QueueBytes Size `yaml:"-"`
	// ReplayBytes is how many bytes of a stream's events are kept, and ReplayTime how long after the client has left:
	// clients reconnect within seconds, or not at all.
	ReplayBytes Size          `yaml:"-"`
	ReplayTime  time.Duration `yaml:"-"`
}

// ConnectionsOf returns how many connections of clients may be open if the process may have this number of files open, but at most
// max: three tenths, because each mostly has one to the server while it is in use.
func ConnectionsOf(files uint64, max int) int { return int(min(uint64(max), files/10*3)) }

// OpenConnections returns Connections, or less if the process may not have so many files open.
func (c Limits) OpenConnections() int {
	if files, known := openfiles.Allowed(); known {
		return ConnectionsOf(files, c.Connections)
	}
	return c.Connections
}

// OpenStreams returns Streams, or an eighth of the files that the process may have open if that is less.
func (c Limits) OpenStreams() int {
	if files, known := openfiles.Allowed(); known {
		return int(min(uint64(c.Streams), files/8))
	}
	return c.Streams
}

// HeldBytes returns InHand. If InHand is 0, it returns half of the memory limit of the control group,
// or 512 MiB without such a limit.
func (c Limits) HeldBytes() int64 {
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
	// FirstByte bounds the wait until the server begins to answer, Silence the time between two signs of life after
	// that, such as progress or a comment on the stream.
	FirstByte time.Duration `yaml:"first_byte"`
	Silence   time.Duration `yaml:"silence"`
}

// Inspect sets whether dragoman has a page that shows messages as they pass, at /inspect/ of the listener of probes and
// metrics.
type Inspect struct {
	// Enabled serves the page.
	Enabled bool `yaml:"enabled"`
	// Token is what the page must be opened with, at least 32 characters; "" for a random one that ends with the process.
	// It may contain ${NAME}. It is a secret and never logged. It must be set if admin.listen is not a loopback address.
	Token string `yaml:"token"`
	// Keep keeps the newest messages even while no page is open, so that the page shows what came before it.
	Keep bool `yaml:"keep"`
	// Payloads is masked for payloads without what looks like a secret, or none for the names, types and sizes of their
	// values only.
	Payloads string `yaml:"payloads"`
	// Redact are the paths of further members that hold secrets, by the name of the tool, or "*" for every message. A path
	// is member names with dots between; a star is any name. It may begin at any depth.
	Redact map[string][]string `yaml:"redact"`
}

// Record sets whether messages are recorded in a file, for dragoman inspect, translate and transform.
type Record struct {
	// File is the file that messages are recorded in, without secrets; "" for none. {time} stands for the time at which
	// dragoman started. Only its owner can read it. It must not exist, since a recording replaces no file.
	File string `yaml:"file"`
	// MaxBytes is the size at which File is renamed to FILE.1, which replaces the one before, so that there are two at most.
	MaxBytes Size `yaml:"max_bytes"`
}

// Telemetry sets what spans hold. The OTEL_ variables say where they are sent.
type Telemetry struct {
	// Payloads is whether the spans of tool calls have the arguments and the result, without secrets as far as they can be
	// recognized. One over 16 KiB is replaced by its size.
	Payloads bool `yaml:"payloads"`
}

// Log sets what is written to stderr.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// KnownLosses are rules of translation, such as C05, whose losses are known: they are logged at level debug. The others are
	// logged as a warning, once for each kind of client. The counters count all.
	KnownLosses []string `yaml:"known_losses"`
	// Format is json, for one object a line; text, for a line of at most 160 columns, with what to do below it where it has no room
	// there; or auto, for text on a terminal and json otherwise. Text has colours on a terminal, unless NO_COLOR is set or TERM is dumb.
	Format string `yaml:"format"`
}

// The values of log.format.
const (
	LogAuto = "auto"
	LogJSON = "json"
	LogText = "text"
)

// Shutdown bounds how long stopping takes.
type Shutdown struct {
	// Drain is how long calls in flight, and those that wait for a user's answer, may go on. As long as there are any,
	// connections are accepted.
	Drain time.Duration `yaml:"drain"`
}

// Default returns the configuration in which nothing was set.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8808", ListenMode: "0600",
		Path:      "/mcp",
		SSEPath:   "/sse",
		Heartbeat: 15 * time.Second,
		OAuth:     OAuth{Relay: "oauth"},
		Admin:     Admin{Listen: "127.0.0.1:8809"},
		Upstream: Upstream{
			PassEnv:          upstream.DefaultEnv(),
			Transport:        string(upstream.Auto),
			Verify:           VerifyFull,
			Cookies:          CookiesOfBalancers,
			PassHeaders:      defaultPassed(),
			ConnectTimeout:   5 * time.Second,
			DeadAfter:        25 * time.Second,
			HandshakeTimeout: 55 * time.Second, // clients on published SDKs wait a minute, and would not see why
			SilenceTimeout:   5 * time.Minute,
			UnreadTimeout:    5 * time.Minute,
			Auth:             UpstreamAuth{KeyAudience: KeyForIssuer, Wait: 25 * time.Second},
			Restart:          Restart{Max: 5, Wait: time.Second, MaxWait: 30 * time.Second},
		},
		Adapters: defaultAdapters(), CredentialStore: string(oauth.Auto),
		Contract: translate.Options{
			ResourceContentsName: "on",
			ElicitationFallback:  "error",
			Tasks:                "bridge",
			SchemaDialect:        "auto",
		},
		Footprint: Footprint{MaxBytes: footprint.DefaultBudget, Hoist: "off"},
		Session:   Session{IdleTimeout: 30 * time.Minute, Max: 10_000, MaxProcesses: 64, MaxAge: 24 * time.Hour, Without: WithoutRefuse},
		Bridge: Bridge{
			Principal: "authorization", MaxSessions: 10_000, IdleTimeout: 5 * time.Minute,
			MaxParked: 1000, ParkTimeout: 10 * time.Minute, Coalesce: 30 * time.Millisecond, OpenedTimeout: 2 * time.Second,
			DefaultLogLevel: "info", Cache: Cache{Entries: 10_000},
		},
		Store: defaultStore(),
		Limits: Limits{
			ClientMessage:   10 << 20,
			UpstreamMessage: 64 << 20,
			Batch:           100,
			OpenRequests:    1024,
			Requests:        4096,
			Connections:     10_000,
			Streams:         10_000,
			Header:          16 << 10,
			Queue:           256,
			QueueBytes:      1 << 20,
			Replay:          256,
			ReplayBytes:     1 << 20,
			ReplayTime:      5 * time.Minute,
		},
		Inspect:  Inspect{Payloads: "masked"},
		Record:   Record{MaxBytes: 64 << 20},
		Log:      Log{Level: "info", Format: LogAuto},
		Shutdown: Shutdown{Drain: 10 * time.Second},
	}
}

// MessagesPath is the path at which clients on HTTP+SSE post their messages.
const MessagesPath = "/messages"

// ReplicasPath is the URL path at which this process receives requests that other replicas forward.
const ReplicasPath = "/dragoman/replicas"

// SocketMode returns ListenMode, which must be valid.
func (c *Config) SocketMode() fs.FileMode {
	mode, _ := strconv.ParseUint(c.ListenMode, 8, 9)
	return fs.FileMode(mode)
}

// AtSocket reports whether the server is at a unix socket.
func (c *Upstream) AtSocket() bool { return unixsocket.Is(c.URL) }

// ServerName returns the name by which rules refer to the server: the host of its URL, the name of its socket's file without .sock, or
// the name of its program.
func (c *Upstream) ServerName() string {
	if path, _, err := unixsocket.Server(c.URL); c.AtSocket() && err == nil {
		return strings.TrimSuffix(filepath.Base(path), ".sock")
	}
	if u, err := url.Parse(c.URL); err == nil && c.URL != "" {
		return u.Hostname()
	}
	if len(c.Command) > 0 {
		return strings.TrimSuffix(filepath.Base(c.Command[0]), ".exe")
	}
	return ""
}
