package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

func loginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login URL | --list",
		Short: "Sign in to a server and store its tokens",
		Long: "Sign in, as a person, to the server at URL. The tokens are stored for stdio, and for serve with\n" +
			"upstream.auth.type: login: in the directory that credentials names, encrypted if there is a\n" +
			"keyring. A running process uses them from its next request on.\n\n" + exitHelp,
		Example: "  dragoman login https://mcp.example.com/mcp\n" +
			"  dragoman login https://mcp.example.com/mcp --paste     # the browser is on another machine\n" +
			"  dragoman login https://mcp.example.com/mcp --device    # the same, with a code to type there\n" +
			"  dragoman login --list",
	}
	list := cmd.Flags().Bool("list", false, "list the servers that tokens are stored for")
	device := cmd.Flags().Bool("device", false, "sign in on another device, with a code, if the authorization server offers that")
	paste := cmd.Flags().Bool("paste", false, "read the address of the browser's last page from stdin")
	quiet := cmd.Flags().Bool("no-browser", false, "print the address of the sign-in instead of opening a browser")
	cmd.MarkFlagsMutuallyExclusive("device", "paste", "list")
	cmd.MarkFlagsMutuallyExclusive("device", "no-browser")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *list {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	s := newSettings(cmd, signInFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *list {
			return s.listSignIns(cmd)
		}
		cfg, a, err := s.account(args[0])
		if err != nil {
			return err
		}
		defer a.Close()
		if cfg.CredentialStore == string(oauth.Memory) {
			return &exitError{exitUsage, errLoginInMemory}
		}
		ctx, stop := context.WithTimeout(cmd.Context(), loginTime)
		defer stop()
		if *device {
			err = a.SignInOnDevice(ctx, func(d oauth.DeviceCode) { sayCode(cmd.ErrOrStderr(), d.Page, d.Code, d.Link) })
		} else {
			b := browserLogin{say: cmd.ErrOrStderr(), open: !*quiet, byDevice: func() string {
				if !a.HasDevice() {
					return ""
				}
				return "dragoman login --device " + a.Arguments()
			}}
			if *paste {
				b.pasted = cmd.InOrStdin()
			}
			err = a.SignIn(ctx, b)
		}
		if err != nil {
			return withCode(exitServer, errors.New(printable(signInError(err, &cfg))))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "signed in to %s\n", printable(cfg.Upstream.URL))
		return err
	}
	return cmd
}

// signInError returns why a sign-in has failed: in the words of other commands, if no server was there to ask for it.
func signInError(err error, cfg *config.Config) string {
	if failed, ok := errors.AsType[*upstream.Error](err); ok && failed.Via == "" && failures.Of(err) == failures.Refused {
		return "cannot log in: " + config.SafeURL(cfg.Upstream.URL) + " refuses connections; start it, or correct the URL"
	}
	if errors.As(err, new(*upstream.Error)) || errors.As(err, new(*upstream.StatusError)) {
		return report.Told(err, cfg)
	}
	return err.Error()
}

func logoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout URL | --all",
		Short: "End a sign-in and delete its tokens",
		Long: "Delete the stored tokens of a server. If its authorization server has a revocation endpoint, the tokens are\n" +
			"revoked there first; otherwise they stay valid until they expire.\n\n" + exitHelp,
		Example: "  dragoman logout https://mcp.example.com/mcp\n  dragoman logout --all",
	}
	all := cmd.Flags().Bool("all", false, "end all sign-ins")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *all {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	s := newSettings(cmd, signInFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *all {
			return s.endAll(cmd)
		}
		_, a, err := s.account(args[0])
		if err != nil {
			return err
		}
		return endSignIn(cmd, a)
	}
	return cmd
}

// endSignIn logs an account out, closes it, and prints whether its tokens were revoked and deleted.
func endSignIn(cmd *cobra.Command, a *oauth.Account) error {
	defer a.Close()
	known, revoked, err := a.Logout(cmd.Context())
	said := "deleted here; they stay valid at the server until they expire"
	switch {
	case !known && err == nil:
		said = "not stored: there was nothing to delete"
	case revoked:
		said = "revoked, and deleted here"
	}
	if _, failed := fmt.Fprintf(cmd.OutOrStdout(), "the tokens for %s are %s\n", printable(a.Server()), said); failed != nil {
		return failed
	}
	if err != nil {
		return withCode(exitServer, errors.New(printable(err.Error())))
	}
	return nil
}

func (s *settings) endAll(cmd *cobra.Command) error {
	store, err := s.tokenStore()
	if err != nil {
		return err
	}
	accounts, err := oauth.Accounts(store, zap.NewNop())
	if err != nil {
		return err
	}
	var failed []error
	for _, a := range accounts {
		failed = append(failed, endSignIn(cmd, a))
	}
	return errors.Join(failed...)
}

// listSignIns prints what is stored of all servers.
func (s *settings) listSignIns(cmd *cobra.Command) error {
	store, err := s.tokenStore()
	if err != nil {
		return err
	}
	all, err := oauth.List(cmd.Context(), store)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "no tokens are stored")
		return err
	}
	return tabulate(cmd.OutOrStdout(), "SERVER\tPROFILE\tISSUER\tCLIENT\tSCOPES\tSIGN-IN\tTOKEN UNTIL\tSTORED", func(row func(...any)) {
		for _, st := range all {
			state, until, where := "signed in", "-", "encrypted file"
			switch {
			case st.Err != nil:
				state = st.Err.Error()
			case !st.Signed:
				state = "ended"
			case !st.Renews:
				state = "signed in until the token expires"
			}
			if !st.Expires.IsZero() {
				until = st.Expires.Local().Format(time.DateTime)
			}
			if !st.Sealed {
				where = "plain file"
			}
			dash := func(text string) string {
				if text == "" {
					return "-"
				}
				return printable(text)
			}
			row(dash(st.Server), dash(st.Profile), dash(st.Issuer), dash(st.Client), dash(strings.Join(st.Scopes, " ")), printable(state), until, where)
		}
	})
}

// account returns the sign-in to a server, with its tokens where the configuration says.
func (s *settings) account(server string) (config.Config, *oauth.Account, error) {
	if !looksLikeURL(server) {
		err := fmt.Errorf("%q is not a URL such as https://mcp.example.com/mcp", server)
		if hostLike().MatchString(server) {
			err = fmt.Errorf("%q is not a URL; did you mean https://%s?", server, server)
		}
		return config.Config{}, nil, &exitError{exitUsage, err}
	}
	cfg, err := s.config([]string{server})
	if err != nil {
		return cfg, nil, err
	}
	log, err := logger(cfg)
	if err != nil {
		return cfg, nil, err
	}
	a, err := origin.NewAccount(&cfg, origin.TokenStore(&cfg, log), log)
	if err != nil {
		err = &exitError{exitUsage, err}
	}
	return cfg, a, err
}

func (s *settings) tokenStore() (*oauth.Store, error) {
	cfg, err := config.Sources{File: s.configFile(), Environ: os.Environ()}.Read()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return origin.TokenStore(&cfg, zap.NewNop()), nil
}
