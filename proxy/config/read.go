package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// Sources are the inputs of a configuration. Each one overrides those before it, and all of them
// override the defaults.
type Sources struct {
	File    string                         // YAML; "" for none
	Environ []string                       // "NAME=value"; only names that begin with [EnvPrefix] set something
	Headers string                         // a file for upstream.header_file; "" for that of the configuration
	Flags   func(*Config, *setting.Layers) // applies the command line; may be nil
	Server  *string                        // of several in a client's configuration, "" if there is one; nil if File is none of a client
}

// EnvPrefix begins the names of dragoman's variables: session.max is DRAGOMAN_SESSION_MAX.
const EnvPrefix = "DRAGOMAN_"

const verifyVariable = EnvPrefix + "UPSTREAM_VERIFY"

// EnvFile is the variable that names the configuration file.
const EnvFile = EnvPrefix + "CONFIG"

// TokenVariable is the variable that the documentation proposes for ${NAME} in auth.tokens. A process of the same environment
// may run without the file that refers to it, such as dragoman probe beside dragoman serve.
const TokenVariable = EnvPrefix + "TOKEN"

// What is wrong, and what to do, if [Auth.Unused].
const (
	UnusedToken = TokenVariable + " is set, but no setting refers to it: it is ignored"
	UseOfToken  = `to require it of clients: auth.tokens: ["${` + TokenVariable + `}"] in the configuration file, or the variable DRAGOMAN_AUTH_TOKENS in its place`
)

// Read builds the configuration. Its error lists every mistake: the source, the path of the setting
// and the expected value.
func (s Sources) Read() (Config, error) {
	c, _, err := s.read()
	return c, err
}

// read does what Read does. The layers know where each setting is from.
func (s Sources) read() (Config, *setting.Layers, error) {
	c := Default()
	adminPort := c.Admin.Listen
	layers := setting.Over(&c, removed)
	layers.MeantList = meantList
	client := "" // the place of a client's server
	if s.File != "" {
		text, err := ReadSmall(s.File)
		if err != nil && s.File == file.AtHome(s.Getenv(EnvFile), s.Home()) {
			return c, layers, fmt.Errorf("configuration file (%s): %w", EnvFile, err)
		}
		if err != nil {
			return c, layers, fmt.Errorf("configuration file: %w", err)
		}
		if client = s.layClient(text, &c, layers); client == "" {
			layers.File(s.File, text)
		} else if err := layers.Err(); err != nil {
			return c, layers, err
		}
	} else if s.Server != nil && *s.Server != "" {
		layers.Add(setting.Mistake{Where: "--server", Text: "chooses a server in a client's configuration: --config FILE is missing; a URL needs no flag"})
	}
	layers.Env(EnvPrefix, s.Environ, []string{EnvFile, TokenVariable})
	if s.Headers != "" {
		c.Upstream.HeaderFile = s.Headers
		layers.Flag("upstream.header_file", "--header-file")
	}
	c.Upstream.HeaderFile = file.AtHome(c.Upstream.HeaderFile, s.Home())
	layers.Add(c.Upstream.readHeaderFile(layers.Flag)) // before the flags: they depend on whether there is an Authorization
	if c.Upstream.Verify == VerifyNone && layers.Origin("upstream.verify") == verifyVariable {
		layers.Add(setting.Mistake{Where: verifyVariable, Text: "a variable holds for every dragoman of its environment: write --verify none, or upstream.verify: none in the file"})
		c.Upstream.Verify = VerifyFull
	}
	if s.Flags != nil {
		s.Flags(&c, layers)
	}
	c.Admin.Movable = layers.Origin("admin.listen") == "" && c.Admin.Listen == adminPort
	for _, path := range []string{"upstream.url", "upstream.command"} {
		if at := layers.Origin(path); client != "" && at != "" && at != client {
			layers.Add(setting.Mistake{Where: at, Text: "two servers are given, this one and " + client + ": keep one"})
		}
	}
	c.atHome(s.Home())
	c.Remarks = append(c.Remarks, plainIn(c.Upstream.Headers)...)
	if u := &c.Upstream; u.CAFile == "" && u.URL != "" && !u.AtSocket() {
		u.Extra = ReadExtraCAs(s.Getenv(ExtraCAsVariable))
	}
	used := false
	layers.Add(c.Expand(func(name string) (string, bool) {
		layers.Forgive(name)
		used = used || name == TokenVariable
		return lookup(s.Environ, name)
	}))
	maps.Copy(c.Upstream.Env, c.Upstream.Given)
	if len(c.Upstream.Command) > 0 {
		c.Upstream.SecretNames = append(c.Upstream.SecretNames, c.Adapters.variables()...)
	}
	c.Auth.Unused = !used && s.Getenv(TokenVariable) != ""
	c.Auth.locate(layers)
	c.Store.PodIP, _ = lookup(s.Environ, "POD_IP")
	layers.Add(c.Validate())
	return c, layers, layers.Err()
}

// locate notes where the tokens are from.
func (a *Auth) locate(layers *setting.Layers) {
	a.From = map[string]string{}
	for i := range a.Tokens {
		path := fmt.Sprintf("auth.tokens[%d]", i)
		a.From[path] = cmp.Or(layers.Origin(path), layers.Origin("auth.tokens"))
	}
	for name := range a.NamedTokens {
		path := "auth.named_tokens." + name
		a.From[path] = cmp.Or(layers.Origin(path), layers.Origin("auth.named_tokens"))
	}
}

// Getenv returns the value of a variable; "" for none.
func (s Sources) Getenv(name string) string {
	value, _ := lookup(s.Environ, name)
	return value
}

// Home returns the home directory of the user whose variables are environ.
func (s Sources) Home() string {
	if home := s.Getenv("HOME"); home != "" {
		return home
	}
	return s.Getenv("USERPROFILE")
}

// eachText calls do with every text of a setting: its setting's path, its place in the setting, and its value, which it replaces
// by what do returns.
func (c *Config) eachText(do func(path, at, value string) string) {
	_ = c.EachSetting(func(path string, v reflect.Value) error {
		switch value := v.Addr().Interface().(type) {
		case *string:
			if now := do(path, path, *value); now != *value {
				*value = now
			}
		case *[]string:
			for i, one := range *value {
				if now := do(path, fmt.Sprintf("%s[%d]", path, i), one); now != one {
					(*value)[i] = now
				}
			}
		case *map[string]string:
			for _, name := range slices.Sorted(maps.Keys(*value)) {
				if now := do(path+"."+name, path+"."+name, (*value)[name]); now != (*value)[name] {
					(*value)[name] = now
				}
			}
		}
		return nil
	})
}

// Expand replaces ${NAME} with the environment's values in the settings that may hold secrets. Each
// name that is not set is a mistake.
func (c *Config) Expand(lookup func(name string) (string, bool)) error {
	var all setting.Mistakes
	c.eachText(func(path, at, value string) string {
		if !mayExpand(path) {
			return value
		}
		out, err := expand(value, func(name string) (string, bool) {
			if !strings.HasPrefix(path, "upstream.env.") { // which the command gets in any case
				c.Upstream.SecretNames = append(c.Upstream.SecretNames, name)
			}
			return lookup(name)
		})
		if err != nil {
			all.Addf(at, "%s", err)
			return value
		}
		return out
	})
	return all.Err()
}

// expand replaces ${NAME}. A lone $ stands for itself, because secrets may contain one.
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

// Form says what a size looks like in a configuration.
func (s *Size) Form() string { return "a size such as 64KiB, 10MiB or a number of bytes" }
