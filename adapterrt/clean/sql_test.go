package clean

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// statements are texts with SQL, which is masked: two keywords make a statement, in upper or
// lower case, on several lines, quoted or not. The text around a statement stays.
var statements = map[string]string{
	"SELECT * FROM users":                           "[sql]",
	"select name from users":                        "[sql]",
	"Select name From users":                        "[sql]",
	"select id from available":                      "[sql]",
	"select id from the_list":                       "[sql]",
	"select id from one where":                      "[sql]",
	"select id from my.users":                       "[sql]",
	"SELECT an item FROM the list":                  "[sql]",
	"select an item from the list where id = 4":     "[sql]",
	"select a from the list union select b from us": "[sql]",
	"SELECT count(*)FROM users":                     "[sql]",
	"select`a`from`b`":                              "select`a`from`b`", // no space after the verb: not recognised
	"select\ta\nfrom\tb":                            "[sql]",
	"error in query: SELECT a FROM b; try later":    "error in query: [sql]; try later",
	"near \"SELECT a FROM b WHERE c = 'd'\" at 7":   "near \"[sql]\" at 7",
	"near 'SELECT a FROM b WHERE c = ''d'' or e' :": "near '[sql]' :",
	`near 'SELECT a FROM b WHERE c = \'d\' or e' :`: `near '[sql]' :`,
	"near `SELECT a FROM b` and more":               "near `[sql]` and more",
	"'SELECT a FROM b is not closed":                "'[sql]",
	"failed:\nSELECT\n  id,\n  name\nFROM\n  users\nWHERE id = 1\nORDER BY id\nThe end": "failed: [sql] The end",
	"LINE 1: SELECT * FROM nothing\n                      ^":                            "LINE 1: [sql]                       ^",
	"with x as (select a from b) select c from x":                                       "with x as ([sql]",
	"SELECT a FROM (SELECT b FROM c) d":                                                 "[sql]",
	"INSERT INTO t (a, b) VALUES (1, 2)":                                                "[sql]",
	"insert  into t values(1)":                                                          "[sql]",
	"INSERT INTO t\n(a)\nVALUES\n(1)":                                                   "[sql]",
	"insert into t select a from b":                                                     "insert into t [sql]",
	"UPDATE t SET a = 1":                                                                "[sql]",
	"update users u set a=1 where b":                                                    "[sql]",
	"update only t as x set a = 1":                                                      "[sql]",
	"UPDATE t\nSET a = 1\nWHERE b = 2":                                                  "[sql]",
	"DELETE FROM t WHERE a = 1":                                                         "[sql]",
	"delete from t where a is null":                                                     "[sql]",
	"DELETE FROM sessions WHERE the user left":                                          "[sql]",
	"a; select b from c; d; update e set f = 1; g":                                      "a; [sql]; d; [sql]; g",
}

// sentences are English texts of APIs with the same words.
var sentences = []string{
	"select an item from the list", "Please select an item from the list", "Select one from the available plans and try again",
	`Please select "Pro" from the list of plans`, "select a colour from your palette", "Select the account from which you pay",
	"Select all that apply", "select: must be a list", "The select box is empty", "selected items from cart",
	"Cannot delete from basket", "delete from basket", "Delete from the list where it was added", "Could not delete the item",
	"Cannot insert into the list: values must be unique", "Insert into a folder first", "insert a coin",
	"Update the record and set a title", "You can't update a closed issue", "update failed; set a title", "Update available",
	"updates are set by the owner", "Please update your settings", "The last update set no title",
}

func TestStatementsAreMasked(t *testing.T) {
	for in, want := range statements {
		if got := (Sanitizer{}).Clean(in, 500, nil); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
	for _, in := range append(sentences, harmless...) {
		if got := (Sanitizer{}).Clean(in, 500, nil); got != in {
			t.Errorf("%q became %q", in, got)
		}
		if got := (Sanitizer{}).Clean(in+"; SELECT a FROM b", 500, nil); got != in+"; [sql]" {
			t.Errorf("behind %q: %q", in, got)
		}
	}
}

// TestCleaningTakesLinearTime cleans texts that an API could make in order to slow down cleaning.
func TestCleaningTakesLinearTime(t *testing.T) {
	for _, words := range []string{
		"select ", "insert into ", "delete from ", "update x ", "select a from the ", "insert into the values ", "update a set ", "'select ",
		"select,\n", "select a\nfrom the ", "/var/a", "key=", "at a(", "10.0.0.1 ", "password: ", "a.b.", "-----BEGIN A-----",
	} {
		text := strings.Repeat(words, 4<<20/len(words))
		if took := peertest.ProcessorTime(func() { (Sanitizer{}).Clean(text, 500, nil) }); took > 5*time.Second {
			t.Errorf("%q: %v", words, took)
		}
	}
}
