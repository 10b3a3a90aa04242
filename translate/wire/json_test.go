package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEachAndMember(t *testing.T) {
	const in = ` { "a" : [ 1 , {"b":[]} , "\u0041" , null ] , "\u0062":{}, "a":{"c":{"d":5}} , "e": [ ] }`
	got := ""
	Each([]byte(in), func(name, value []byte) bool {
		got += string(name) + "=" + string(value) + ";"
		return string(name) != "a" || value[0] == '['
	})
	if want := `a=[ 1 , {"b":[]} , "\u0041" , null ];b={};a={"c":{"d":5}};`; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	kinds := ""
	Each(Member([]byte(`{"l":[ null,true,-1,"x",[],{} ]}`), "l"), func(name, value []byte) bool {
		kinds += string('0' + rune(KindOf(value)))
		return name == nil
	})
	if kinds != "123456" {
		t.Error(kinds)
	}
	if v := Lookup([]byte(in), []string{"a", "c", "d"}); string(v) != "5" {
		t.Errorf("%s", v)
	}
	for _, none := range []string{"", "5", "[1]", `{"b":1}`} {
		if v := Member([]byte(none), "a"); v != nil {
			t.Errorf("%s: %s", none, v)
		}
	}
}

func TestEachInReadsOnce(t *testing.T) {
	got := ""
	EachIn([]byte(` { "a" : 1 , "p" : { "x" : [ 1 ] , "y" : { } } , "p" : [ ] , "\u0070":{"z":2}, "b":"}" } `), "p", func(name, value []byte) bool {
		got += "(" + string(name) + "=" + string(value) + ")"
		return true
	}, func(name, value []byte) bool {
		got += string(name) + "=" + string(value) + ";"
		return true
	})
	if want := `a=1;(x=[ 1 ])(y={ })p={ "x" : [ 1 ] , "y" : { } };p=[ ];(z=2)p={"z":2};b="}";`; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	EachIn([]byte(`{}`), "p", nil, nil)
}

func TestMembersAreJSON(t *testing.T) {
	got := Members(nil).Str("a\"b", "\xff\x7f\x00\n\u2028").Int("i", -5).Bool("t", true).Raw("r", []byte("[1]")).Strs("s", []string{"x", "y"}).End()
	if want := `{"a\"b":"\ufffd\u007f\u0000\n\u2028","i":-5,"t":true,"r":[1],"s":["x","y"]}`; !json.Valid(got) || string(got) != strings.ReplaceAll(strings.ReplaceAll(want, `\ufffd`, "\ufffd"), `\u2028`, "\u2028") {
		t.Errorf("%s", got)
	}
	if string(Members(nil).End()) != "{}" {
		t.Error("the empty object")
	}
}

func TestPlainInteger(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "-0.0": "0", "0e999999999999999999999": "0", "50.0": "50", "5e1": "50", "5E+1": "50", "1.5e1": "15", "-12.00": "-12", "1200e-2": "12",
		"1.5": "no", "1e-1": "no", "1e400": "no", "1e999999999999999999": "no", "1e-99999999999999999": "no", "9007199254740993": "9007199254740993", "0.00012e5": "12", "120e-1": "12",
	} {
		out, ok := AppendInteger(nil, []byte(in))
		if got := string(out); ok != (want != "no") || ok && got != want {
			t.Errorf("%s: got %q %v, want %s", in, got, ok, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.Int64().Draw(t, "i")
		s := strconv.FormatInt(i, 10)
		for _, in := range []string{s, s + ".0", s + "e0", s + "0e-1"} {
			if out, ok := AppendInteger(nil, []byte(in)); !ok || string(out) != s {
				t.Fatalf("%s: %s %v", in, out, ok)
			}
		}
	})
}
