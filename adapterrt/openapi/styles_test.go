package openapi_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestStyles checks what is sent for each style of parameters, by the table of the specification:
// https://spec.openapis.org/oas/v3.1.0#style-examples
func TestStyles(t *testing.T) {
	in, err := read(t, "styles.yaml").Import(openapi.Options{Name: "styles"})
	if err != nil {
		t.Fatal(err)
	}
	const list, object = `{"p":["blue","black","brown"]}`, `{"p":{"R":100,"G":200}}`
	for _, c := range []struct{ operation, params, want string }{
		{"simple", `{"p":"blue"}`, "/simple/blue"},
		{"simple_array", list, "/simple_array/blue,black,brown"},
		{"label", `{"p":"blue"}`, "/label/.blue"},
		{"label_array", list, "/label_array/.blue,black,brown"},
		{"matrix", `{"p":"blue"}`, "/matrix/;p=blue"},
		{"matrix_array", list, "/matrix_array/;p=blue,black,brown"},
		{"reserved", `{"p":"a/b:c"}`, "/reserved/a/b:c"},
		{"form", `{"p":"blue"}`, "/form?p=blue"},
		{"form_array", list, "/form_array?p=blue&p=black&p=brown"},
		{"form_array_csv", list, "/form_array_csv?p=blue,black,brown"},
		{"form_object", `{"r":100,"g":200}`, "/form_object?R=100&G=200"},
		{"form_object_csv", object, "/form_object_csv?p=R,100,G,200"},
		{"space", list, "/space?p=blue%20black%20brown"},
		{"pipe", list, "/pipe?p=blue%7Cblack%7Cbrown"},
		{"pipe_explode", list, "/pipe_explode?p=blue&p=black&p=brown"},
		{"deep", object, "/deep?p%5BR%5D=100&p%5BG%5D=200"},
		{"deep_array", list, "/deep_array?p%5B%5D=blue&p%5B%5D=black&p%5B%5D=brown"},
		{"json", object, "/json?p=%7B%22R%22%3A100%2C%22G%22%3A200%7D"},
		{"header", `{"x_p":["a","b"]}`, "/header"},
		{"cookie", `{}`, "/cookie"},
		{"post", `{"p":"q","body_p":"b"}`, "/post?p=q\n{\"p\":\"b\"}"},
	} {
		draft := adapterrt.Draft{Request: `{"operation":"` + c.operation + `","params":` + c.params + `}`, Receives: "200 application/json\n{}"}
		made, problems := adapterrt.Illustrate("styles-adapter.md", in.Files[0].Front(), &adapterrt.Options{}, []adapterrt.Draft{draft})
		if len(made) == 0 || made[0].Fault != "" {
			t.Errorf("%s: %v %v", c.operation, made, problems)
			continue
		}
		_, sent, _ := strings.Cut(made[0].Example, "https://styles.example.com")
		sent, _, _ = strings.Cut(sent, "\n-- receives")
		if sent != c.want {
			t.Errorf("%s: sends %s, want %s", c.operation, sent, c.want)
		}
	}
	var dropped []string
	for _, f := range in.Findings {
		if f.Class == openapi.Dropped {
			dropped = append(dropped, f.Operation)
		}
	}
	if got := strings.Join(dropped, ", "); got != "GET /label_explode/{p}, GET /object/{p}, GET /cookie_required" {
		t.Error(got)
	}
}
