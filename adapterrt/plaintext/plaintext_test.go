package plaintext

import "testing"

func TestOf(t *testing.T) {
	for file, want := range map[string]string{
		"":                                 "",
		"token\n":                          "token\n",
		"\xef\xbb\xbftoken\n":              "token\n",
		"\xef\xbb\xbf\xef\xbb\xbftoken":    "\ufefftoken",
		"\xff\xfet\x00o\x00\xe9\x00\n\x00": "toé\n",
		"\xfe\xff\x00t\x00o":               "to",
		"\xff\xfet":                        "\ufffd",
		"\xff\x00 binary \xfe\xff":         "\xff\x00 binary \xfe\xff",
	} {
		if got := string(Of([]byte(file))); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}
