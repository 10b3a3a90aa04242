package sealed

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func testSealer(t testing.TB, url string, keys ...byte) *Sealer {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, KeyBytes))
	}
	s, err := New(all, config.Upstream{URL: url}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testTicket(named string) Session {
	return Session{
		Made: time.Unix(1_700_000_000, 0), ClientRevision: translate.Oldest(), ServerRevision: translate.Latest(),
		Facts: wire.ClientRoots | wire.ServerLogging, Named: named,
	}
}

func TestSessionIDContainsTheSession(t *testing.T) {
	s := testSealer(t, "http://a/mcp", 1)
	for _, vc := range translate.Handshake() {
		for _, named := range []string{"", "x", "9b0a3a4e-3f4c-4f0e-b0ff-5c9b0f4b7d11", strings.Repeat("y", MaxNamed)} {
			for i, cookies := range []string{"", "", "AWSALB\x00a", strings.Repeat("c", MaxCookies)} {
				want := testTicket(named)
				want.ClientRevision, want.Local, want.Greeted, want.Cookies = vc, i == 1, i == 2, cookies
				if i == 3 {
					want.Home, want.ClientInfo, want.Capabilities = ID{1}, strings.Repeat("i", MaxIntroduced), strings.Repeat("k", MaxIntroduced)
				}
				id := s.SealSession(want)
				if got, ok := s.OpenSession(id, want.Made.Add(time.Minute)); !ok || got != want {
					t.Errorf("%+v became %+v, %t", want, got, ok)
				}
				if strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
					t.Errorf("id %q is not visible ASCII", id)
				}
				if id == s.SealSession(want) {
					t.Error("two sessions with one id")
				}
			}
		}
	}
}

// TestIDOfASessionWithCookiesFitsIntoAnother: one dragoman may be in front of another.
func TestIDOfASessionWithCookiesFitsIntoAnother(t *testing.T) {
	s := testSealer(t, "http://a/mcp", 1)
	for _, about := range []int{0, 100, 300, MaxIntroduced} {
		for _, named := range []int{0, 36, 200, MaxNamed} {
			k := testTicket(strings.Repeat("n", named))
			k.ClientInfo, k.Capabilities = strings.Repeat("i", about), strings.Repeat("c", about)
			before := len(s.SealSession(k))
			room := k.RoomForCookies()
			k.Cookies = strings.Repeat("k", room)
			if n := len(s.SealSession(k)); n > MaxNamed && before <= MaxNamed || room > MaxCookies || before < 1500 && room < 300 {
				t.Errorf("an id of %d bytes has %d with %d of cookies", before, n, room)
			}
		}
	}
}

func TestInvalidSessionIDsAreRefused(t *testing.T) {
	mine := testSealer(t, "http://a/mcp", 1)
	k := testTicket("theirs")
	good := mine.SealSession(k)
	for what, c := range map[string]struct {
		ID string
		At time.Duration
	}{
		"none":             {"", 0},
		"short":            {"nope", 0},
		"another key":      {testSealer(t, "http://a/mcp", 2).SealSession(k), 0},
		"another upstream": {testSealer(t, "http://a/other", 1).SealSession(k), 0},
		"too old":          {good, time.Hour + time.Second},
		"cut":              {good[:len(good)-1], 0},
		"longer":           {good + "AAAA", 0},
		"line break":       {good[:8] + "\n" + good[8:], 0},
		"padding":          {good + "=", 0},
		"huge":             {strings.Repeat("A", 1<<20), 0},
		"in hex":           {hex.EncodeToString([]byte(good)), 0},
	} {
		if _, ok := mine.OpenSession(c.ID, k.Made.Add(c.At)); ok {
			t.Errorf("%s: opened", what)
		}
	}
	if _, ok := mine.OpenSession(good, k.Made.Add(time.Hour)); !ok {
		t.Error("the good one does not open")
	}
	for i := range good {
		forged := []byte(good)
		forged[i] ^= 1
		if _, ok := mine.OpenSession(string(forged), k.Made); ok {
			t.Errorf("opened with character %d changed", i)
		}
	}
}

func TestOldKeyOpensAndNewOneSeals(t *testing.T) {
	k := testTicket("theirs")
	before, between, after := testSealer(t, "u", 1), testSealer(t, "u", 2, 1), testSealer(t, "u", 2)
	for what, c := range map[string]struct {
		by, in *Sealer
		ok     bool
	}{
		"old id while both are known": {before, between, true},
		"new id while both are known": {between, between, true},
		"new id with the new key":     {between, after, true},
		"new id with the old key":     {between, before, false},
		"old id with the new key":     {before, after, false},
	} {
		if _, ok := c.in.OpenSession(c.by.SealSession(k), k.Made); ok != c.ok {
			t.Errorf("%s: %t", what, ok)
		}
	}
}

func TestKeyFile(t *testing.T) {
	one, two := bytes.Repeat([]byte{0xfb}, KeyBytes), bytes.Repeat([]byte{2}, KeyBytes)
	inHex, inBase64 := hex.EncodeToString(one), base64.StdEncoding.EncodeToString(two)
	for _, c := range []struct {
		text  string
		want  [][]byte
		fault string
	}{
		{inHex, [][]byte{one}, ""},
		{inBase64 + "\n", [][]byte{two}, ""},
		{inHex + "\r\n" + inBase64 + "\r\n", [][]byte{one, two}, ""},
		{base64.RawURLEncoding.EncodeToString(one), [][]byte{one}, ""},
		{base64.URLEncoding.EncodeToString(one), [][]byte{one}, ""},
		{base64.RawStdEncoding.EncodeToString(one), [][]byte{one}, ""},
		{"", nil, "line 1: not 32 bytes"},
		{"secret", nil, "line 1: not 32 bytes"},
		{inHex[:62], nil, "line 1: not 32 bytes"},
		{inHex + "\nsecret", nil, "line 2: not 32 bytes"},
		{inHex + "\n" + inHex + "\n" + inHex, nil, "more than two keys"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadKeys(file)
		if c.fault == "" {
			if err != nil || len(got) != len(c.want) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(c.want, nil)) {
				t.Errorf("%q: %x, %v", c.text, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.fault) || !strings.HasPrefix(err.Error(), "session.key_file") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if _, err := ReadKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is no error")
	}
}

// FuzzOpenID checks that only texts that were sealed here can be opened. Such a text
// holds what was sealed, is the only text of its bytes, and its content can be sealed
// again.
func FuzzOpenID(f *testing.F) {
	s := testSealer(f, "http://a/mcp", 1)
	known := s.SealSession(testTicket("theirs"))
	f.Add(known)
	f.Add(known[:len(known)-1] + "B")
	f.Add(known[:40] + "\r\n" + known[40:])
	f.Add("")
	f.Add("====")
	f.Add(testSealer(f, "http://b/mcp", 1).SealSession(testTicket("")))
	withCookies := testTicket("theirs")
	withCookies.Cookies = "route\x00r1"
	f.Add(testSealer(f, "http://b/mcp", 1).SealSession(withCookies))
	f.Add(strings.Repeat("A", 126))
	asked := s.SealQuestion([]byte("1"), []byte("note"))
	f.Add(string(asked))
	f.Add(string(asked[len(QuestionPrefix) : len(asked)-1]))
	now := testTicket("").Made
	f.Fuzz(func(t *testing.T, id string) {
		if id, note, ok := s.OpenQuestion([]byte(id)); ok && (string(id) != "1" || string(note) != "note") {
			t.Fatalf("a question's id opens to %q, %q", id, note)
		}
		got, ok := s.OpenSession(id, now)
		if !ok {
			return
		}
		if got != testTicket("theirs") { // nothing else was ever sealed for this server
			t.Fatalf("%q opens to %+v", id, got)
		}
		if box, err := base64.RawURLEncoding.DecodeString(id); err != nil || base64.RawURLEncoding.EncodeToString(box) != id {
			t.Errorf("%q is another text for an id", id)
		}
		if again, ok := s.OpenSession(s.SealSession(got), now); !ok || again != got {
			t.Errorf("%+v became %+v, %t", got, again, ok)
		}
	})
}

// TestIDHoldsItsQuestion: the id of a question opens only with the keys and for the server with
// which it was made.
func TestIDHoldsItsQuestion(t *testing.T) {
	const id, note = `"q\u0031"`, `[["a",true,"x"]]`
	s := testSealer(t, "http://a/mcp", 1)
	made := s.SealQuestion([]byte(id), []byte(note))
	gotID, gotNote, ok := testSealer(t, "http://a/mcp", 2, 1).OpenQuestion(made)
	if !ok || string(gotID) != id || string(gotNote) != note {
		t.Errorf("%q, %q, %t", gotID, gotNote, ok)
	}
	for what, other := range map[string][]byte{
		"nothing":          nil,
		"a session's":      []byte(QuestionPrefix + s.SealSession(testTicket("")) + `"`),
		"changed":          append(bytes.Clone(made[:len(made)-2]), '_', '"'),
		"empty":            []byte(QuestionPrefix + `"`),
		"a number":         []byte("1"),
		"another server's": testSealer(t, "http://b/mcp", 1).SealQuestion([]byte(id), []byte(note)),
		"another key's":    testSealer(t, "http://a/mcp", 3).SealQuestion([]byte(id), []byte(note)),
	} {
		if id, _, ok := s.OpenQuestion(other); ok {
			t.Errorf("%s opens to %q", what, id)
		}
	}
	if _, ok := s.OpenSession(string(made[len(QuestionPrefix):len(made)-1]), testTicket("").Made); ok {
		t.Error("a question's id is a session's")
	}
}
