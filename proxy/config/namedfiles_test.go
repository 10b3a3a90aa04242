package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// filesOfSettings are the settings that name a file, and when the file is read again: if it changes, the configuration is
// reloaded ("reload"), or the file is read each time that it is needed ("use"); "secret" for a file with one.
var filesOfSettings = map[string]string{
	"auth.token_file":                  "reload,secret",
	"tls.cert":                         "reload",
	"tls.key":                          "reload,secret",
	"session.key_file":                 "reload,secret",
	"upstream.ca_file":                 "reload",
	"upstream.header_file":             "reload,secret",
	"upstream.client_cert":             "reload",
	"upstream.client_key":              "reload,secret",
	"upstream.auth.client_secret_file": "reload,secret",
	"upstream.auth.key_file":           "reload,secret",
	"upstream.auth.token_file":         "use,secret",
	"upstream.auth.assertion_file":     "use,secret",
	"store.password_file":              "use,secret",
	"store.ca_file":                    "use",
	"store.client_cert":                "use",
	"store.client_key":                 "use,secret",
	"adapters.network.ca_file":         "reload",
}

// noFiles are settings that look as if they named a file that is read.
var noFiles = []string{
	"adapters.sources", // their files are watched for themselves, since folders have them
	"record.file",      // is written
}

// TestEverySettingThatIsAFileSaysWhenItIsRead fails for a new setting that names a file and has no tag: nothing would read the file
// again when it changes.
func TestEverySettingThatIsAFileSaysWhenItIsRead(t *testing.T) {
	name, comment := regexp.MustCompile(`(^|[_.])(file|cert|key|pem|path)$`), regexp.MustCompile(`(?i)\b(is|are) (a |the )?(\w+ )?files?\b`)
	source := newReferenceWriter(t).types["proxy/config"]
	tagged := map[string]string{}
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		said := ""
		for _, f := range source[of.Name()].Fields.List {
			if f.Doc != nil {
				said = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
			for _, ident := range f.Names {
				field, _ := of.FieldByName(ident.Name)
				key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
				at := setting.Join(path, key)
				inner := field.Type
				for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
					inner = inner.Elem()
				}
				switch {
				case key == "-":
				case inner.Kind() == reflect.Struct && source[inner.Name()].StructType != nil && inner.PkgPath() == of.PkgPath():
					walk(at, inner)
				case field.Tag.Get("file") != "":
					tagged[at] = field.Tag.Get("file")
				case inner.Kind() == reflect.String && !slices.Contains([]string{"path", "sse_path", "health_paths"}, at) && (name.MatchString(key) || f.Doc != nil && comment.MatchString(said)) && !slices.Contains(noFiles, at):
					t.Errorf("%s seems to name a file (%q): give its field the tag file:\"reload\" or file:\"use\"", at, said)
				}
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	if !maps.Equal(tagged, filesOfSettings) {
		t.Errorf("the fields with the tag are %v, want %v", tagged, filesOfSettings)
	}
}

// TestFilesAreThoseOfTheConfiguration checks that Files has each setting that is to be reloaded, SecretFiles each that holds a secret,
// and neither any other.
func TestFilesAreThoseOfTheConfiguration(t *testing.T) {
	c := Default()
	if got := c.Files(); len(got) > 0 {
		t.Errorf("the default configuration names %q", got)
	}
	var want []string
	var secrets []SecretFile
	_ = c.EachSetting(func(path string, v reflect.Value) error {
		if v.Kind() == reflect.String {
			v.SetString("of " + path)
			if strings.HasPrefix(filesOfSettings[path], "reload") {
				want = append(want, "of "+path)
			}
			if strings.HasSuffix(filesOfSettings[path], ",secret") {
				secrets = append(secrets, SecretFile{path, "of " + path})
			}
		}
		return nil
	})
	if got := c.Files(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.SecretFiles(); !slices.Equal(got, secrets) {
		t.Errorf("%q, want %q", got, secrets)
	}
}
