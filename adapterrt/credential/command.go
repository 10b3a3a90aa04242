package credential

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	commandTime  = 30 * time.Second
	commandGrace = time.Second // after the command has ended, for processes that it started
	maxPrinted   = 1 << 20
	maxComplaint = 4 << 10 // bytes of the command's stderr that are kept
)

// passed are the environment variables that a command receives: those that a program needs to
// find its files and to reach the network. They contain no secret of this program.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PATHEXT", "COMSPEC", "TEMP", "TMP",
}

// commanded runs the operator's command and returns the token that it prints. The output is
// a JSON object with access_token or token, and with expires_in in seconds or expires_at
// as an RFC 3339 time; or it is a line with the token and optionally a second line with
// either form of the expiry.
func (s *Signer) commanded(ctx context.Context) (token, secrets, *failure.Failure) {
	text, err := s.keeper.run(ctx, s.command)
	if err != nil {
		return token{}, nil, s.failed(fmt.Errorf("command %s: %w", s.command[0], err))
	}
	word, until := printed(text)
	switch {
	case word == "":
		err = errors.New("it printed no token")
	case len(word) > maxToken:
		err = fmt.Errorf("it printed a token of more than %d bytes", maxToken)
	case !file.IsHeaderValue(word):
		err = errors.New("the token contains control characters")
	}
	now := s.keeper.Now()
	life := lifeUnknown
	if err == nil && until != "" {
		if life, err = lifeOf(until, now); err == nil && life <= 0 {
			err = errors.New("the token has expired already")
		}
	}
	if err != nil {
		return token{}, nil, s.failed(fmt.Errorf("command %s: %w", s.command[0], err))
	}
	return newToken(word, min(life, lifeLongest), now), secrets{word}, nil
}

// run runs a command and returns what it prints on stdout.
func (k *Keeper) run(ctx context.Context, command []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	if k.Run != nil {
		return k.Run(ctx, command)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, complaint := &beginning{most: maxPrinted}, &beginning{most: maxComplaint}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, complaint, commandGrace
	withGroup(cmd)
	err := children.Run(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not ended within %v", commandTime)
	case err != nil:
		if said := (clean.Sanitizer{}).Clean(strings.TrimSpace(complaint.text.String()), maxDescription, strings.Fields(out.text.String())); said != "" {
			return nil, fmt.Errorf("%w: %s", err, strconv.Quote(said))
		}
		return nil, err
	case out.more:
		return nil, fmt.Errorf("it printed more than %d bytes", maxPrinted)
	}
	return out.text.Bytes(), nil
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	text bytes.Buffer
	most int
	more bool
}

var _ io.Writer = (*beginning)(nil)

func (b *beginning) Write(p []byte) (int, error) {
	take := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:take])
	b.more = b.more || take < len(p)
	return len(p), nil
}

// printed parses the output of a command. It returns the token and its expiry, either of
// them "" if the output does not contain it.
func printed(out []byte) (word, until string) {
	out = wire.Trim(out)
	if !wire.Valid(out) || wire.KindOf(out) != wire.Object {
		lines := strings.Split(string(out), "\n")
		if len(lines) > 1 {
			until = strings.TrimSpace(lines[1])
		}
		return strings.TrimSpace(lines[0]), until
	}
	said := oauthclient.Object(out)
	until = said.Text("expires_at")
	if v := wire.Member(out, "expires_in"); v != nil {
		until = strings.Trim(string(v), `"`)
	}
	return cmp.Or(said.Text("access_token"), said.Text("token")), until
}

// lifeOf returns the time from now to until, which is a number of seconds or an RFC 3339 time.
func lifeOf(until string, now time.Time) (time.Duration, error) {
	if n, err := strconv.ParseFloat(until, 64); err == nil && n <= lifeLongest.Seconds() {
		return time.Duration(n * float64(time.Second)), nil
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return 0, errors.New("the expiry of the token is neither a number of seconds nor an RFC 3339 time")
	}
	return at.Sub(now), nil
}
