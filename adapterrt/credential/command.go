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

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	commandTime  = 30 * time.Second
	commandGrace = time.Second // for what the command has started, once it has ended
	maxComplaint = 4 << 10     // of what the command says on stderr
)

// passed are the variables that a command is given: what a program needs to find its files
// and its way out, and no secret of ours.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PATHEXT", "COMSPEC", "TEMP", "TMP",
}

// commanded is the token that the operator's command prints: a JSON object with access_token
// or token, and expires_in, in seconds, or expires_at, by RFC 3339; or a line with the token
// and perhaps a second one with either.
func (s *Signer) commanded(ctx context.Context) (token, secrets, *failure.Failure) {
	text, err := run(ctx, s.command)
	if err != nil {
		return token{}, nil, s.failed(fmt.Errorf("command %s: %w", s.command[0], err))
	}
	word, until := printed(text)
	switch {
	case word == "":
		err = errors.New("it printed none")
	case len(word) > maxToken:
		err = fmt.Errorf("a token of more than %d bytes", maxToken)
	case !file.IsHeaderValue(word):
		err = errors.New("control characters within the token")
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

// run is what a command prints.
func run(ctx context.Context, command []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, complaint := &beginning{most: maxTokenReply}, &beginning{most: maxComplaint}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, complaint, commandGrace
	withGroup(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not ended within %v", commandTime)
	case err != nil:
		if said := (clean.Sanitizer{}).Clean(strings.TrimSpace(complaint.text.String()), maxDescription, strings.Fields(out.text.String())); said != "" {
			return nil, fmt.Errorf("%w: %s", err, strconv.Quote(said))
		}
		return nil, err
	case out.more:
		return nil, fmt.Errorf("it printed more than %d bytes", maxTokenReply)
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

// printed is a token and when it ends, "" for what is not said.
func printed(out []byte) (word, until string) {
	out = wire.Trim(out)
	if !wire.Valid(out) || wire.KindOf(out) != wire.Object {
		lines := strings.Split(string(out), "\n")
		if len(lines) > 1 {
			until = strings.TrimSpace(lines[1])
		}
		return strings.TrimSpace(lines[0]), until
	}
	until = text(out, "expires_at")
	if v := wire.Member(out, "expires_in"); v != nil {
		until = strings.Trim(string(v), `"`)
	}
	return cmp.Or(text(out, "access_token"), text(out, "token")), until
}

// lifeOf is how long from now until is, which is in seconds or by RFC 3339.
func lifeOf(until string, now time.Time) (time.Duration, error) {
	if n, err := strconv.ParseFloat(until, 64); err == nil && n <= lifeLongest.Seconds() {
		return time.Duration(n * float64(time.Second)), nil
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return 0, errors.New("when the token ends is neither a number of seconds nor a time by RFC 3339")
	}
	return at.Sub(now), nil
}
