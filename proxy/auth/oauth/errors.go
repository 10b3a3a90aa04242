package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// SignInError says that a person has to sign in to Server.
type SignInError struct {
	Server  string
	Args    string     // the other arguments of dragoman login
	Err     error      // why the last sign-in cannot be used any more; nil if there was none
	Open    bool       // a browser shows the sign-in page
	Link    string     // URL of the sign-in page, if no browser could be opened
	Code    DeviceCode // that the user was told, in place of a browser
	Device  bool       // the user can sign in on another device too
	Process int        // id of another process that waits for the user; 0 for none
}

func (e *SignInError) Error() string {
	switch {
	case e.Process != 0:
		return fmt.Sprintf("waiting for the sign-in that process %d has begun", e.Process)
	case e.Open:
		return fmt.Sprintf("sign-in needed for %s: finish it in the browser, then start this server again (or run: dragoman login %s)", e.Server, e.Server+e.Args)
	case e.Code.Code != "":
		return fmt.Sprintf("sign-in needed for %s: open %s on any device and type the code %s, then start this server again", e.Server, e.Code.Page, e.Code.Code)
	case e.Link != "" && e.Device:
		return fmt.Sprintf("sign-in needed for %s: open %s, or run: dragoman login --device %s", e.Server, e.Link, e.Server+e.Args)
	case e.Link != "":
		return fmt.Sprintf("sign-in needed for %s: open %s, or run: dragoman login --paste %s", e.Server, e.Link, e.Server+e.Args)
	case e.Err != nil:
		return fmt.Sprintf("sign-in for %s has ended (%v); run dragoman login %s", e.Server, e.Err, e.Server+e.Args)
	}
	return fmt.Sprintf("sign-in needed for %s: run dragoman login %s", e.Server, e.Server+e.Args)
}

func (e *SignInError) Unwrap() error { return e.Err }

// noAnswerError says that the browser did not return in time.
type noAnswerError struct {
	args string
	as   string // the client, if another program has registered it; "" otherwise
}

func (e *noAnswerError) Error() string {
	text := fmt.Sprintf("no answer from the browser in %d min; run dragoman login %s", int(signInTime.Minutes()), e.args)
	if e.as != "" {
		text += ". If its page showed an error, the authorization server may know the client otherwise: " + e.as
	}
	return text
}

// lateCodeError says that the user did not use the code on another device.
type lateCodeError struct {
	args string
	last error // of the last request to the authorization server; nil if it has answered
}

func (e *lateCodeError) Error() string {
	text := "the code was not used in time; run dragoman login --device " + e.args
	if e.last != nil {
		text += " (" + e.last.Error() + ")"
	}
	return text
}

// unreadError says that the metadata of a server is at none of the places where it was looked for.
type unreadError struct {
	of    string // the URL of the MCP server, or AS and its issuer
	tried []place
	named bool   // a challenge of the server says where it is
	then  string // what to do, "" for nothing
}

// A place is a URL where metadata was looked for, and why it is not there.
type place struct {
	at      string
	err     error
	strange bool // only a challenge leads there
}

// nothing reports whether the server says that it has no metadata, at each of the places where clients look for it without a challenge.
func (e *unreadError) nothing() bool {
	return !slices.ContainsFunc(e.tried, func(p place) bool { return !p.strange && !errors.As(p.err, new(noDocument)) })
}

func (e *unreadError) Error() string {
	var b strings.Builder
	if issuer, is := strings.CutPrefix(e.of, "AS "); is && !slices.ContainsFunc(e.tried, func(p place) bool { return !errors.Is(p.err, syscall.ECONNREFUSED) }) {
		b.WriteString("the authorization server " + strings.Trim(issuer, `"`) + " refuses connections")
		if e.then != "" {
			b.WriteString("; " + e.then)
		}
		return b.String()
	}
	if e.nothing() && !e.named {
		fmt.Fprintf(&b, "%s has no metadata: tried ", e.of)
	} else {
		fmt.Fprintf(&b, "cannot read the metadata of %s: tried ", e.of)
	}
	for i, p := range e.tried {
		b.WriteString(plainWord(p.at))
		why := p.why()
		switch {
		case i+1 == len(e.tried):
			b.WriteString(": " + why)
		case e.tried[i+1].why() != why:
			b.WriteString(": " + why + "; ")
		case i+2 < len(e.tried) && e.tried[i+2].why() == why:
			b.WriteString(", ")
		default:
			b.WriteString(" and ")
		}
	}
	if e.then != "" {
		b.WriteString("; " + e.then)
	}
	return b.String()
}

// why returns the reason without the URL.
func (p *place) why() string { return strings.TrimPrefix(p.err.Error(), quoted(p.at)+" ") }

func (e *unreadError) Unwrap() (all []error) {
	for _, p := range e.tried {
		all = append(all, p.err)
	}
	return all
}

// severalError has what is wrong with each of several authorization servers.
type severalError struct{ all []error }

func (e *severalError) Error() string {
	var texts []string
	for _, err := range e.all {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (e *severalError) Unwrap() []error { return e.all }

// nowhereError says that a server refuses requests and names no authorization server.
type nowhereError struct{ server string }

func (e *nowhereError) Error() string {
	return e.server + " wants a token and does not say where to get one: give it with --header 'Authorization: Bearer ${TOKEN}'"
}

// IsNowhere reports whether err says that the server names no authorization server.
func IsNowhere(err error) bool { return errors.As(err, new(*nowhereError)) }

// uselessError says that the server refuses the tokens of its own authorization server.
type uselessError struct{ server, audience, named string }

func (e *uselessError) Error() string {
	return fmt.Sprintf("%s refused a fresh token: it is for %s, the server calls itself %s", e.server, e.audience, e.named)
}

// scopesError says that the server wants scopes that the sign-in did not give.
type scopesError struct {
	server      string
	wants, gave []string
	args        string
	signIn      bool // another sign-in may grant them
}

func (e *scopesError) Error() string {
	text := fmt.Sprintf("%s wants scopes %s, the sign-in gave %s", e.server, listed(e.wants), listed(e.gave))
	if e.signIn {
		text += "; run dragoman login " + e.server + e.args
	}
	return text
}

func listed(scopes []string) string {
	if len(scopes) == 0 {
		return "none"
	}
	return plainWord(strings.Join(scopes, " "))
}
