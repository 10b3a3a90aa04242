package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// Store sets where replicas keep what they share: originals for fetch_more, confirmation tokens, limits, ended sessions, tokens,
// and where each replica is. Without a URL each process keeps these for itself.
type Store struct {
	// URL is a server with the Redis protocol (Redis 6.2 or later, Valkey): redis://HOST:PORT/DATABASE, rediss:// for TLS, or
	// unix:///PATH?db=DATABASE. Several hosts, with commas between them, are those of a Cluster, or of Sentinels. What is kept
	// there is sealed with session.key_file, which must be set.
	URL string `yaml:"url"`
	// Username is the user at the server; "" for its default user.
	Username string `yaml:"username"`
	// Password is the password of Username. It may contain ${NAME}. It is a secret and never logged.
	Password string `yaml:"password"`
	// PasswordFile is a file with the password, which is read again for each connection.
	PasswordFile string `yaml:"password_file" file:"use,secret"`
	// Sentinel is the name of the server at the Sentinels, if the hosts in URL are Sentinels; "" if they are not.
	Sentinel string `yaml:"sentinel"`
	// SentinelPassword is the password of the Sentinels; "" if they want none. It may contain ${NAME}. It is a secret
	// and never logged.
	SentinelPassword string `yaml:"sentinel_password"`
	// CAFile is a PEM file of the authorities that the server's certificate is verified with; "" for the system's. It is read again for each
	// connection.
	CAFile string `yaml:"ca_file" file:"use"`
	// ClientCert and ClientKey are PEM files of the certificate that is shown to the server; "" for none. They are read again for each
	// connection.
	ClientCert string `yaml:"client_cert" file:"use"`
	ClientKey  string `yaml:"client_key" file:"use,secret"`
	// Prefix begins the names of all keys and channels, before a colon. Deployments that share a server have different ones.
	Prefix string `yaml:"prefix"`
	// Timeout is how long one operation may take. After three that took longer the server counts as down: what needs it fails
	// at once, until it answers again.
	Timeout time.Duration `yaml:"timeout"`
	// MaxValue is the largest value, such as the original of one shortened result.
	MaxValue Size `yaml:"max_value"`
	// Advertise is the address, host:port, at which the other replicas reach this one; "" for POD_IP or an address of this
	// machine, with the port of "listen".
	Advertise string `yaml:"advertise"`
	// PodIP is the variable POD_IP, which Kubernetes sets from status.podIP.
	PodIP string `yaml:"-"`
}

func defaultStore() Store {
	return Store{Prefix: "dragoman", Timeout: 200 * time.Millisecond, MaxValue: 8 << 20}
}

// StoreServer is where Store.URL leads.
type StoreServer struct {
	Network   string   // "tcp" or "unix"
	Addresses []string // host:port, or the path of a socket
	Database  int
	TLS       bool
}

// Server returns where URL leads. Its errors do not contain the URL's user and password.
func (s *Store) Server() (StoreServer, error) {
	scheme, rest, ok := strings.Cut(s.URL, "://")
	if !ok || !slices.Contains([]string{"redis", "rediss", "unix"}, scheme) {
		return StoreServer{}, errors.New("is not a URL that begins with redis://, rediss:// or unix://")
	}
	if scheme == "unix" {
		path, query, _ := strings.Cut(rest, "?")
		if !strings.HasPrefix(path, "/") {
			return StoreServer{}, errors.New("has no absolute path of a socket, as in unix:///run/redis/redis.sock")
		}
		asked, err := url.ParseQuery(query)
		if err != nil {
			return StoreServer{}, errors.New("has a query that cannot be read")
		}
		at := StoreServer{Network: "unix", Addresses: []string{path}}
		for name := range asked {
			if name != "db" {
				return StoreServer{}, fmt.Errorf("has a parameter other than db: %q", name)
			}
		}
		at.Database, err = database(asked.Get("db"))
		return at, err
	}
	if strings.Contains(rest, "@") {
		return StoreServer{}, errors.New("names a user or a password: put them into store.username, and store.password_file or store.password")
	}
	if strings.ContainsAny(rest, "?#") {
		return StoreServer{}, errors.New("has a query or a fragment")
	}
	hosts, db, _ := strings.Cut(rest, "/")
	at := StoreServer{Network: "tcp", TLS: scheme == "rediss"}
	for entry := range strings.SplitSeq(hosts, ",") {
		entry = strings.TrimSpace(entry)
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			host, port = strings.Trim(entry, "[]"), "6379"
			if s.Sentinel != "" {
				port = "26379"
			}
		}
		n, bad := strconv.ParseUint(port, 10, 16)
		if bad != nil || n == 0 || host == "" || strings.ContainsAny(host, " %\t\r\n") {
			return StoreServer{}, fmt.Errorf("has %q, which is not host:port", entry)
		}
		at.Addresses = append(at.Addresses, net.JoinHostPort(host, port))
	}
	if len(at.Addresses) > maxStores {
		return StoreServer{}, errors.New("has more than " + strconv.Itoa(maxStores) + " hosts")
	}
	var err error
	if at.Database, err = database(db); err == nil && at.Database != 0 && len(at.Addresses) > 1 && s.Sentinel == "" {
		err = errors.New("has several hosts and a database: a Cluster has database 0 only, and for Sentinels set store.sentinel")
	}
	return at, err
}

func database(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("has the database %q, which is not a number", text)
	}
	return int(n), nil
}

// GetPassword returns the password, from its file or the setting.
func (s *Store) GetPassword() (string, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	text, err := ReadSmall(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("store.password_file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func (s *Store) validate(keyFile string) error {
	var all setting.Mistakes
	if s.Timeout <= 0 {
		all.Addf("store.timeout", "must be greater than 0")
	}
	if s.MaxValue < 64<<10 || s.MaxValue > 256<<20 {
		all.Addf("store.max_value", "must be between 64KiB and 256MiB")
	}
	if s.Advertise != "" && !isHostPort(s.Advertise) {
		all.Addf("store.advertise", "%q is not host:port", s.Advertise)
	}
	if s.Prefix == "" || len(s.Prefix) > 64 || strings.ContainsAny(s.Prefix, "{} \t\r\n") {
		all.Addf("store.prefix", "must have 1 to 64 characters, without braces and spaces")
	}
	if s.URL == "" {
		return all.Err()
	}
	at, err := s.Server()
	if err != nil {
		all.Addf("store.url", "%s", err)
	}
	if keyFile == "" {
		all.Addf("store.url", "set session.key_file to the key that all replicas share: what is kept at the server is sealed with it")
	}
	if s.Password != "" && s.PasswordFile != "" {
		all.Addf("store", "set password or password_file, not both")
	}
	if (s.ClientCert == "") != (s.ClientKey == "") {
		all.Addf("store", "client_cert and client_key belong together")
	}
	if err == nil && !at.TLS && (s.CAFile != "" || s.ClientCert != "") {
		all.Addf("store", "ca_file and client_cert need a url that begins with rediss://")
	}
	if s.Sentinel == "" && s.SentinelPassword != "" {
		all.Addf("store.sentinel_password", "needs store.sentinel, the name of the server at the Sentinels")
	}
	if s.Sentinel != "" && err == nil && at.Network == "unix" {
		all.Addf("store.sentinel", "needs the hosts of Sentinels in store.url, not a socket")
	}
	return all.Err()
}

// isHostPort reports whether a text is the host and the port of a listener that can be connected to.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && host != "" && !strings.ContainsAny(host, " /@?#%\t\r\n")
}
