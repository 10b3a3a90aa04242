package clean

import (
	"strings"
	"testing"
)

func TestUpstreamWordsAreSanitised(t *testing.T) {
	z := Sanitizer{Host: "10.1.1.1:80"}
	for in, want := range map[string]string{
		"bad token ghp_abcdefghijklmnop here":                  "bad token [redacted] here",
		"Authorization: Bearer abcdefghijkl":                   "Authorization: [redacted]",
		"api_key=abcdefgh12345678&x=1":                         "api_key=[redacted]&x=1",
		"see eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh ok": "see [redacted] ok",
		"my s3cret-value leaked":                               "my [redacted] leaked",
		"failed in /var/lib/app/main.py now":                   "failed in [path] now",
		"dial 192.168.4.5:5432 failed":                         "dial [host] failed",
		"dial 10.1.1.1 failed":                                 "dial 10.1.1.1 failed",
		"db.prod.internal is down":                             "[host] is down",
		"postgres://u:p@db/x is down":                          "[redacted] is down",
		"see https://u:p@api.example.com/docs":                 "see https://api.example.com/docs",
		"boom\n    at foo (bar.js:1)\nmain.go:12 +0x1\nend":    "boom end",
		"a\u202eb\x1b[31mc":                                    "ab[31mc",
		"near select a from b\nwhere c":                        "near [sql]",
		strings.Repeat("é", 600):                               strings.Repeat("é", 500),
	} {
		if got := z.Clean(in, 500, []string{"s3cret-value"}); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	dev := Sanitizer{Off: true}
	if got := dev.Clean("in /var/b/c for https://u:p@h/ with ghp_abcdefghijklmnop", 500, nil); got != "in /var/b/c for https://h/ with [redacted]" {
		t.Error(got)
	}
}

// leaks are texts of APIs that contain what a client must not learn.
var leaks = map[string]string{
	`SQLSTATE 42P01: SELECT * FROM users WHERE id = 1; try later`:                   `SQLSTATE 42P01: [sql]; try later`,
	`error in 'SELECT "users"."id" FROM "users" LIMIT 1' near LIMIT`:                `error in '[sql]' near LIMIT`,
	`duplicate key: insert into t (a) values (1)`:                                   `duplicate key: [sql]`,
	`Query failed: UPDATE accounts SET balance = 0 WHERE id = 4`:                    `Query failed: [sql]`,
	`delete from sessions where user_id = 5 failed`:                                 `[sql]`,
	"select id, name from customers":                                                "[sql]",
	"ENOENT: no such file or directory, open '/app/config/secrets.json'":            "ENOENT: no such file or directory, open '[path]'",
	`cannot read /home/deploy/.ssh/id_rsa`:                                          `cannot read [path]`,
	`C:\inetpub\wwwroot\web.config is missing`:                                      `[path] is missing`,
	`see file:///opt/app/log`:                                                       `see file://[path]`,
	"Error: x\n    at Object.<anonymous> (/srv/a.js:1:2)\n    at a.b.C.d(C.java:5)": "Error: x",
	`password=hunter2`:                 `password=[redacted]`,
	`{"secret":"s","x":1}`:             `{"secret":"[redacted]","x":1}`,
	`token: abcdefghij0123456789`:      `token: [redacted]`,
	`mysql://root@db/app refused`:      `[redacted] refused`,
	`connect to redis.svc:6379`:        `connect to [host]:6379`,
	`from 172.16.3.4`:                  `from [host]`,
	`TypeError: x is not a function`:   `x is not a function`,
	`Uncaught TypeError [ERR_X]: no x`: `no x`,
	`ftp://me:pw@files.example.com/x`:  `ftp://files.example.com/x`,
}

func TestLeaksAreRemoved(t *testing.T) {
	for in, want := range leaks {
		if got := (Sanitizer{}).Clean(in, 500, nil); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
	keep := Sanitizer{KeepAddresses: true}
	if got := keep.Clean("connect to redis.svc:6379 for /home/a/b", 500, nil); got != "connect to redis.svc:6379 for [path]" {
		t.Error(got)
	}
}

// harmless are texts of APIs that must not change, because a caller needs them.
var harmless = []string{
	"Validation failed: title is required", "Invalid value at /data/attributes/title", "#/components/schemas/Pet is not defined",
	"No route matches POST /v2/users", "GET /repos/octocat/hello/issues/7 was not found", "path: /items/0/name must be a string",
	"Please select an item from the list", "Select one from the available plans and try again", "Update the record and set a title",
	"Cannot delete from basket", "Delete from the list where it was added", "Insert into a folder first", "You can't update a closed issue",
	"Key: the name of a field", "key=value pairs are expected", "token: expired", "The token is invalid", "Missing token", "api_key: required",
	"authorization: denied", "signature: mismatch", "Unknown key 'colour'", "sort key: created_at", "key=id", "Bad credentials",
	"password is too short", "Your password has expired", "The secret is not known", "Token type: bearer", "Basic plan: 5 seats left",
	"at least one label is required", "at most 100 items per page", "at the moment the service is busy", "starts at 2026-01-01T00:00:00Z",
	"must be at https", "Meet at 10:30", "File is too large: 5 MB", "File \u00abreport.pdf\u00bb is empty", "report.v2.csv could not be parsed",
	"Use version 1.2.3.4 of the schema", "Ratio 16:9 is not supported", "10.5 is above the maximum of 10", "Maximum is 10.000.000",
	"See https://docs.example.com/api/errors#E42", "Contact support@example.com", "docs at https://example.com/var/x and /help",
	"The branch feature/login does not exist", "owner/repo is archived", "and/or", "n/a", "a/b/c is not a valid id", "Content-Type must be application/json",
	"Use /app to open it", "mention @here/channel", "/data must be an object", "/tmp is a reserved name", "/code is missing", "I/O timeout",
	"Rate limit exceeded: 60 per minute", "Label 'at risk' exists", "Field 'from' must be before 'to'", "E_CONFLICT: etag mismatch (412)",
	"Expected one of: open, closed, all", "\u540d\u524d is required",
}

func TestHarmlessSentencesAreUnchanged(t *testing.T) {
	if len(harmless) < 60 {
		t.Error(len(harmless))
	}
	for _, in := range harmless {
		if got := (Sanitizer{}).Clean(in, 500, nil); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
}
