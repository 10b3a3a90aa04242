package openapi_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// utf16Of encodes a text, with or without a byte order mark.
func utf16Of(text string, order binary.AppendByteOrder, mark bool) string {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xfeff)
	}
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

// TestEncodings: a document that a Windows tool has written is read as it was meant, and a file that it refers to, too.
func TestEncodings(t *testing.T) {
	const json = `{"openapi": "3.0.0", "info": {"title": "Café", "version": "1"}, "servers": [{"url": "https://h.example.com"}],
		"paths": {"/a": {"get": {"operationId": "a", "summary": "Liste für “Gäste”"}}}}`
	const yaml = "openapi: 3.0.0\ninfo: {title: Café, version: '1'}\nservers: [{url: 'https://h.example.com'}]\npaths:\n  /a: {get: {operationId: a, summary: Liste für “Gäste”}}\n"
	const note = "is not UTF-8 here"
	latin := func(s string) string {
		out, err := charmap.Windows1252.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for format, text := range map[string]string{"json": json, "yaml": yaml} {
		for name, c := range map[string]struct {
			text  string
			noted bool
		}{
			"UTF-8":                     {text, false},
			"UTF-8 with a mark":         {"\ufeff" + text, false},
			"UTF-16LE with a mark":      {utf16Of(text, binary.LittleEndian, true), false},
			"UTF-16BE with a mark":      {utf16Of(text, binary.BigEndian, true), false},
			"UTF-16LE":                  {utf16Of(text, binary.LittleEndian, false), false},
			"UTF-16BE":                  {utf16Of(text, binary.BigEndian, false), false},
			"Windows-1252":              {latin(text), true},
			"UTF-8 with a Latin-1 word": {strings.Replace(text, "für", "f\xfcr", 1), true},
		} {
			t.Run(format+" "+name, func(t *testing.T) {
				d, err := openapi.Read("d", []byte(c.text), nil)
				if err != nil {
					t.Fatal(err)
				}
				in, err := d.Import(openapi.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if front := string(in.Files[0].Front()); d.Title != "Café" || !strings.Contains(front, "Liste für “Gäste”") {
					t.Errorf("%s\n%s", d.Title, front)
				}
				if noted := slices.ContainsFunc(in.Findings, func(f openapi.Finding) bool { return strings.Contains(f.What, note) }); noted != c.noted {
					t.Errorf("noted: %v, %v", noted, in.Findings)
				}
			})
		}
	}
	other := latin(`get: {operationId: a, summary: "Für alle"}`)
	d, err := openapi.Read("d", []byte(document("/a: {$ref: a.yaml}", "")), func(string) ([]byte, error) { return []byte(other), nil })
	if err != nil {
		t.Fatal(err)
	}
	if in, err := d.Import(openapi.Options{}); err != nil || !strings.Contains(string(in.Files[0].Front()), "Für alle") {
		t.Errorf("%v", err)
	}
}
