package upstream

import (
	"strings"
	"testing"
)

// TestTelling: what the runtimes and package runners that start servers write when they end.
func TestTelling(t *testing.T) {
	for name, c := range map[string]struct{ said, want string }{
		"nothing":    {"", ""},
		"plain text": {"starting\nno licence", "no licence"},
		"Node": {`/srv/index.js:3
throw new Error("no database");
^

Error: no database
    at Object.<anonymous> (/srv/index.js:3:7)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
    at async ModuleLoader.import (node:internal/modules/esm/loader:473:24)

Node.js v20.20.2`, "Error: no database"},
		"Node with members": {`node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module 'left-pad'
Require stack:
- /srv/index.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Module._load (node:internal/modules/cjs/loader:1051:27) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [
    '/srv/index.js'
  ]
}

Node.js v20.20.2`, "Error: Cannot find module 'left-pad'"},
		"Python": {`Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    main()
    ~~~~^^
  File "/srv/server.py", line 2, in main
    import fastmcp
ModuleNotFoundError: No module named 'fastmcp'`, "ModuleNotFoundError: No module named 'fastmcp'"},
		"Python, twice": {`Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'A'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
token
  Field required [type=missing]`, "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings"},
		"Java": {`Exception in thread "main" java.lang.IllegalStateException: cannot start
	at org.example.Main.main(Main.java:7)
Caused by: java.io.IOException: no config
	at org.example.Config.read(Config.java:3)
	... 1 more
Caused by: java.nio.file.NoSuchFileException: /etc/x.yaml
	... 2 more`, `Exception in thread "main" java.lang.IllegalStateException: cannot start; Caused by: java.nio.file.NoSuchFileException: /etc/x.yaml`},
		"Rust":     {"thread 'main' (4242) panicked at src/main.rs:2:5:\nno token\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "thread 'main' (4242) panicked at src/main.rs:2:5: no token"},
		"old Rust": {"thread 'main' panicked at 'no token', src/main.rs:2:5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "thread 'main' panicked at 'no token', src/main.rs:2:5"},
		"Go": {`panic: runtime error: index out of range [1] with length 1

goroutine 1 [running]:
main.main()
	/srv/main.go:5 +0x1d
exit status 2`, "panic: runtime error: index out of range [1] with length 1"},
		"npx": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/no-such-server - Not found
npm error 404
npm error A complete log of this run can be found in: /root/.npm/_logs/x-debug-0.log`, "npm error 404 Not Found - GET https://registry.example/no-such-server - Not found"},
		"a server under npx": {`Error: TOKEN is not set
    at main (/srv/index.js:3:7)

Node.js v22.1.0
npm error code 1
npm error path /srv
npm error command failed
npm error command sh -c server`, "Error: TOKEN is not set"},
		"uvx": {"  × No solution found when resolving tool dependencies:\n  ╰─▶ Because no-such-server was not found in the package registry and you require\n      no-such-server, we can conclude that your requirements are unsatisfiable.",
			"× No solution found when resolving tool dependencies: Because no-such-server was not found in the package registry and you require no-such-server, we can conclude that your requirements are unsatisfiable."},
		"only noise":        {"}\n]", "]"},
		"noise behind text": {"failed to bind\n    at x (y.js:1:1)\n}", "failed to bind"},
	} {
		var lines []string
		if c.said != "" {
			lines = strings.Split(c.said, "\n")
		}
		if got := Telling(lines); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
