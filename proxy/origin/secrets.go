package origin

import (
	"os"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// Known returns the secrets that nothing may show: those of the configuration, of the files that it names and of the environment, and
// those that requests carry, as they change. more are further ones.
func (o *Origin) Known(cfg *config.Config, more ...string) secret.Known {
	k := secret.Known{Configured: secret.NewSet(append(Secrets(cfg), more...)...)}
	if o.Credentials != nil {
		k.Sent, k.Clients, k.Cookies = &o.Credentials.Sent, &o.Credentials.Clients, &o.Credentials.Cookies
	}
	return k
}

// Secrets returns the secrets of the configuration, of the files that it names, and of the environment.
func Secrets(cfg *config.Config) []string {
	u := cfg.Upstream
	given := make(map[string]bool)
	for _, value := range u.Env {
		given[value] = isPlain(value)
	}
	all := slices.DeleteFunc(cfg.Secrets(), func(s string) bool { return given[s] })
	environ := slices.DeleteFunc(os.Environ(), func(entry string) bool { // its settings, of which cfg knows what is secret
		return strings.HasPrefix(entry, "DRAGOMAN_")
	})
	all = append(all, failures.Secrets(environ)...)
	all = append(all, failures.Secrets(Env(u, nil))...)
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); {
		case strings.HasSuffix(strings.ToLower(name), "_proxy") && strings.Contains(value, "@"):
			all = append(all, value)
		case strings.HasPrefix(name, "OTEL_") && strings.HasSuffix(name, "_HEADERS"):
			for pair := range strings.SplitSeq(value, ",") {
				_, header, _ := strings.Cut(pair, "=")
				all = append(all, strings.TrimSpace(header))
			}
		}
	}
	for _, file := range []string{cfg.Auth.TokenFile, cfg.Session.KeyFile, cfg.Store.PasswordFile, u.Auth.TokenFile, u.Auth.AssertionFile, u.Auth.ClientSecretFile} {
		if file == "" {
			continue
		}
		text, err := config.ReadSmall(file)
		if err != nil {
			continue // the code that needs the file reports the error
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// isPlain reports whether the value of a variable is a word, a path or an address, which a log may show, unless its name tells otherwise.
func isPlain(value string) bool {
	const longestWord = 16
	switch {
	case strings.HasPrefix(value, "/"), strings.HasPrefix(value, "./"), strings.HasPrefix(value, "~"):
		return true
	case strings.Contains(value, "://"):
		return !strings.ContainsAny(value, "@?")
	}
	return len(value) <= longestWord && strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.,:") == ""
}
