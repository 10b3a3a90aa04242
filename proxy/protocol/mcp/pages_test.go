package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// TestReadPages reads lists whose pages have these values of nextCursor, "-" for none.
func TestReadPages(t *testing.T) {
	for name, c := range map[string]struct {
		cursors        string
		legacy, modern string // the params of the requests, and at the end the error
	}{
		"one page":           {cursors: `-`, legacy: `,`, modern: `,`},
		"null":               {cursors: `null "never"`, legacy: `,`, modern: `,`},
		"three pages":        {cursors: `"a" "b" -`, legacy: `,"cursor":"a","cursor":"b",`, modern: `,"cursor":"a","cursor":"b",`},
		"empty at once":      {cursors: `"" -`, legacy: `,`, modern: `,"cursor":"",`},
		"empty later":        {cursors: `"a" "" "b" -`, legacy: `,"cursor":"a",`, modern: `,"cursor":"a","cursor":"","cursor":"b",`},
		"a number":           {cursors: `7 -`, legacy: `,"cursor":7,`, modern: `,"cursor":7,`},
		"escapes stay":       {cursors: `"\u0061\/" -`, legacy: `,"cursor":"\u0061\/",`, modern: `,"cursor":"\u0061\/",`},
		"the same at once":   {cursors: `"a" "a" -`, legacy: `,"cursor":"a",again "a"`, modern: `,"cursor":"a",again "a"`},
		"the same later":     {cursors: `"a" "b" "c" "a" -`, legacy: `,"cursor":"a","cursor":"b","cursor":"c",again "a"`, modern: `,"cursor":"a","cursor":"b","cursor":"c",again "a"`},
		"the same, escaped":  {cursors: `"a" "\u0061" -`, legacy: `,"cursor":"a",again "\u0061"`, modern: `,"cursor":"a",again "\u0061"`},
		"empty for ever":     {cursors: `"" "" ""`, legacy: `,`, modern: `,"cursor":"",again ""`},
		"a number and text":  {cursors: `7 "7" -`, legacy: `,"cursor":7,"cursor":"7",`, modern: `,"cursor":7,"cursor":"7",`},
		"an object, a false": {cursors: `{} false -`, legacy: `,"cursor":{},"cursor":false,`, modern: `,"cursor":{},"cursor":false,`},
	} {
		for _, r := range translate.All() {
			want := c.legacy
			if r.Modern {
				want = c.modern
			}
			cursors, got, pages := strings.Fields(c.cursors), "", 0
			err := ReadPages(r, func(params string) ([]byte, error) {
				got += params + ","
				if cursors[pages] == "-" {
					return []byte(`{"items":[]}`), nil
				}
				return []byte(`{"items":[],"nextCursor":` + cursors[pages] + `}`), nil
			}, func(result gjson.Result) error {
				pages++
				if !result.Get("items").IsArray() {
					t.Errorf("%s: the page is %s", name, result.Raw)
				}
				return nil
			})
			if e, endless := errors.AsType[*EndlessListError](err); endless {
				got += "again " + e.Cursor
			} else if err != nil {
				t.Error(err)
			}
			if got != want {
				t.Errorf("%s, %s:\n got  %s\n want %s", name, r, got, want)
			}
		}
	}
}

// TestReadPagesIsBounded: a list with ever new cursors, each as long as it likes, is read up to a bound.
func TestReadPagesIsBounded(t *testing.T) {
	n := 0
	err := ReadPages(translate.Latest(), func(string) ([]byte, error) {
		n++
		return fmt.Appendf(nil, `{"nextCursor":"%d%s"}`, n, strings.Repeat("x", 1000)), nil
	}, func(gjson.Result) error { return nil })
	if e, endless := errors.AsType[*EndlessListError](err); !endless || e.Cursor != "" || n != MaxPages {
		t.Errorf("%d pages, %v", n, err)
	}
}

// TestReadPagesEndsWithAnError: what ask or page return ends the walk.
func TestReadPagesEndsWithAnError(t *testing.T) {
	gone, wrong := errors.New("gone"), errors.New("wrong")
	asked := 0
	ask := func(string) ([]byte, error) {
		asked++
		if asked == 2 {
			return nil, gone
		}
		return []byte(`{"nextCursor":"a"}`), nil
	}
	if err := ReadPages(translate.Latest(), ask, func(gjson.Result) error { return nil }); err != gone || asked != 2 {
		t.Error(err, asked)
	}
	if err := ReadPages(translate.Latest(), ask, func(gjson.Result) error { return wrong }); err != wrong || asked != 3 {
		t.Error(err, asked)
	}
}
