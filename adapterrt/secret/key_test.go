package secret

import (
	"strings"
	"testing"
)

// keyBody are lines of a private key.
var keyBody = []string{
	"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
	"MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
	"Zq9==",
}

// TestKeysAreStruckLineByLine: of a private key no line is left, whatever stands around it, and of the lines after it all are.
func TestKeysAreStruckLineByLine(t *testing.T) {
	begin, end := "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
	key := append(append([]string{begin}, keyBody...), end)
	for name, c := range map[string]struct {
		in   []string
		want string // lines; those that are empty are left out
	}{
		"no key":                         {[]string{"started", "-----", "a-----BEGIN b"}, "started|-----|a-----BEGIN b"},
		"a key":                          {append([]string{"key:"}, append(key, "started")...), "key:|[redacted]|started"},
		"two keys":                       {append(append([]string{}, key...), append(key, "done")...), "[redacted]|[redacted]|done"},
		"text around it":                 {append([]string{"key=" + begin}, append(keyBody, end+", loaded", "on")...), "key=[redacted]|, loaded|on"},
		"a key on one line":              {[]string{`{"key":"` + strings.Join(key, `\n`) + `","a":1}`, "on"}, `{"key":"[redacted]","a":1}|on`},
		"two on one line":                {[]string{strings.Join(key, " ") + " and " + strings.Join(key, " ") + ".", "on"}, "[redacted] and [redacted].|on"},
		"begun behind one":               {append([]string{strings.Join(key, " ") + begin}, append(keyBody, end, "on")...), "[redacted][redacted]|on"},
		"other labels":                   {append([]string{"-----BEGIN ENCRYPTED PRIVATE KEY-----"}, append(keyBody, "-----END ENCRYPTED PRIVATE KEY-----", "on")...), "[redacted]|on"},
		"OpenSSH":                        {append([]string{"-----BEGIN OPENSSH PRIVATE KEY-----"}, append(keyBody, "-----END OPENSSH PRIVATE KEY-----", "on")...), "[redacted]|on"},
		"headers":                        {append([]string{"-----BEGIN RSA PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,3F17F5316E2BAC89", ""}, append(keyBody, end, "on")...), "[redacted]|on"},
		"a certificate is none":          {append([]string{"-----BEGIN CERTIFICATE-----"}, keyBody[0], "-----END CERTIFICATE-----"), "-----BEGIN CERTIFICATE-----|" + keyBody[0] + "|-----END CERTIFICATE-----"},
		"a certificate before a key":     {[]string{"-----BEGIN CERTIFICATE----- x -----END CERTIFICATE----- " + begin, keyBody[0], end, "on"}, "-----BEGIN CERTIFICATE----- x -----END CERTIFICATE----- [redacted]|on"},
		"another line between":           {[]string{begin, keyBody[0], "12:00 started", keyBody[1], end, "on"}, "[redacted]|12:00 started|on"},
		"a word between":                 {[]string{begin, keyBody[0], "12:00 started", "listening", keyBody[1], end, "on"}, "[redacted]|12:00 started|listening|on"},
		"a time before each line":        {[]string{"12:00 " + begin, "12:00 " + keyBody[0], "12:01 " + keyBody[1], "12:02 " + end, "12:03 on"}, "12:00 [redacted]|12:00 [redacted]|12:01 [redacted]|12:02 |12:03 on"},
		"blanks and CR":                  {[]string{"  " + begin + "\r", "  " + keyBody[0] + "\r", "  " + end + "\r", "on\r"}, "  [redacted]|on\r"},
		"a key whose end does not come":  {append(append([]string{begin}, keyBody...), "12:00 started", "listening on 8080", "a", "b"), "[redacted]|12:00 started|listening on 8080|a|b"},
		"a key that was cut on its line": {[]string{begin + `\n` + keyBody[0] + "…", "12:00 started", "on"}, "[redacted]|12:00 started|on"},
		"an end without a beginning":     {[]string{keyBody[2], end, "on"}, keyBody[2] + "|" + end + "|on"},
	} {
		var l Lines
		var got []string
		for _, line := range c.in {
			if rest := l.Line(line); rest != "" {
				got = append(got, rest)
			}
		}
		if all := strings.Join(got, "|"); all != c.want {
			t.Errorf("%s:\n got  %q\n want %q", name, all, c.want)
		}
	}
}

// TestAKeyWithoutAnEndHidesNoMore than a key has.
func TestAKeyWithoutAnEndHidesNoMore(t *testing.T) {
	var l Lines
	l.Line("-----BEGIN PRIVATE KEY-----")
	hidden := 0
	for range 10 * maxKeyLines {
		if l.Line(keyBody[0]) == "" {
			hidden++
		}
	}
	if hidden != maxKeyLines {
		t.Errorf("%d lines are hidden, want %d", hidden, maxKeyLines)
	}
}

// FuzzLines: no line of a key is left that is a line, and time is linear: what is returned is not longer than the line and a mark for each key.
func FuzzLines(f *testing.F) {
	f.Add("a\n-----BEGIN PRIVATE KEY-----\nb\n-----END PRIVATE KEY-----c")
	f.Add("-----BEGIN PRIVATE KEY----------END ----------BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		var l Lines
		for line := range strings.SplitSeq(text+"\n-----BEGIN PRIVATE KEY-----\n"+keyBody[0]+"\n"+keyBody[1], "\n") {
			got := l.Line(line)
			if most := len(line) + len(Struck)*(1+strings.Count(line, keyBegins)); len(got) > most {
				t.Fatalf("%q became %q", line, got)
			}
			if strings.Contains(got, keyBody[0]) && !strings.Contains(text, keyBody[0]) && !strings.Contains(text, keyBegins) {
				t.Fatalf("%q is left", got)
			}
		}
	})
}
