# Each target is one plain command that also works when typed.

.PHONY: docs build release test test-race build-race test-peers test-browsers test-redis test-measurements test-judges test-servers test-deploy check check-systems golden fuzz simulate bench compare latency soak cross

FUZZTIME ?= 6m

build: ## the command, in bin/
	go build -trimpath -o bin/dragoman ./cmd/dragoman

release: ## archives for six platforms, their bills of materials and checksums, in dist/
	cd deploy/release && go run .

test: ## what needs nothing but Go
	go test ./...

TEST ?= go test -timeout 20m

test-race: ## the same with the race detector, but for the packages that run the built command, the programs that measure, and what has no goroutines; package proxy/tests begins first, because it takes longest, and has two others beside it, because it often waits; collecting garbage less often and leaving out what only a debugger reads saves a fifth of the time
	$(RACE) -cpu 1 -p 3 $$(go list ./proxy/tests ./... | grep -vFx "$$(go list $(WITHOUT_RACE) $(ALONE))")

RACE = CGO_ENABLED=1 GOGC=400 $(TEST) -race -gcflags=all=-dwarf=false

build-race: ## the tests of package proxy/tests with the race detector, and so most of what the others need
	$(RACE) -c -o /dev/null ./proxy/tests

# -cpu 1: where two goroutines of a bubble of testing/synctest read timers that are due at the same instant, the race detector itself fails
# ("ThreadSanitizer: CHECK failed", https://go.dev/issue/78156). It judges by the order that locks and channels give, and needs no second processor.

# Packages in whose sources and tests nothing runs beside anything else: no go statement, no parallel test, no timer, no connection, no fake peer, no bubble.
ALONE = $$(for f in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do cat $$f/*.go | grep -qE '\bgo (func|[a-z])[A-Za-z.]*\(|\.Go\(|Parallel\(|AfterFunc|Spawn\(|net\.(Listen|Dial|Pipe)|"net/http|errgroup|/(peer|store|oauth|collector|node|sync)test"' || echo $$f; done)

WITHOUT_RACE = ./adapterrt/openapi ./cmd/... ./proxy/observe/page ./bench/corpus ./bench/measure/... ./bench/servers ./bench/simulate/mutants

test-peers: ## the built command with published clients and servers; needs Node.js 20, which installs them; with Chromium and redis-server more are played
	TEST_SETS=peers $(TEST) -count=1 ./cmd/proxy/e2e ./bench/servers

test-browsers: ## the live page in Chromium
	TEST_SETS=browsers $(TEST) ./proxy/observe/page

test-redis: ## replicas that share a store; needs redis-server
	TEST_SETS=redis $(TEST) ./proxy/tests ./proxy/features/adapters ./proxy/commands/doctor ./proxy/store/...

test-measurements: ## that the programs that measure work, and that memory stays within its limit; on Linux also that a router forgets connections; with redis-server also what replicas do when their store fails
	TEST_SETS=measurements $(TEST) ./proxy/transport/upstream -run BehindARouter
	TEST_SETS=measurements $(TEST) ./bench ./bench/measure/...

test-judges: ## requests and the shipped adapters against the vendors' own API documents; npm unpacks 450 MB for it
	TEST_SETS=peers,judges $(TEST) -v ./cmd/proxy/e2e -run 'TestGitHub|TestNotion|TestLinear|TestStripe|TestImported'

test-servers: ## published servers, directly and through dragoman, into docs/servers.md; Node.js 20 and Go install them, 5 GB; about half an hour
	go run ./bench/servers -install -write docs/servers.md

test-deploy: ## the deployment files, adapter import against kin-openapi, and the release, which are modules of their own
	cd deploy/check && go vet ./... && $(TEST) -count=1 ./... # they build the command, which go's cache of results does not see
	cd deploy/release && go vet ./... && GOGC=400 $(TEST) -count=1 ./... # the builds take most of the time

check: ## format, go vet and go.mod, before a review
	test -z "$$(gofmt -l .)"
	go vet ./...
	go mod tidy -diff

golden: ## rewrite the expected results of the golden cases; then read the diff
	go test ./translate -run TestGolden -update

docs: ## rewrite what is generated: settings and their schema, keys of adapter files, causes of failures, metrics, rules, what other tools take
	go test ./adapterrt/file ./proxy/config ./proxy/tests -run 'TestReference|TestSchemaIsUpToDate|TestOperationsPage' -update
	go test ./translate -run TestReferenceOfRules -update
	go test ./cmd/command/comingfrom -run TestPage -update

fuzz: ## run every fuzz target; they share FUZZTIME
	go run ./bench/measure fuzz --total $(FUZZTIME) ./...

SIMULATETIME ?= 60s

simulate: ## worlds from fresh seeds, which are printed, for SIMULATETIME: docs/simulation.md
	go run ./bench/simulate -time $(SIMULATETIME)

bench: ## benchstat-ready; bench/README.md says what each one measures
	go test ./adapterrt ./bench ./proxy/... ./transform/... ./translate/... -run '^$$' -bench . -benchmem

latency: ## what a call costs between each two revisions, beside others and by load, and how costs grow, into docs/performance.md: about six minutes, on a quiet machine
	go run ./bench/measure latency --write docs/performance.md
	go run ./bench/measure growth --write docs/performance.md

compare: ## measure end to end and compare with other proxies, about two minutes
	go run ./bench/measure compare

SOAKTIME ?= 10m

soak: ## watch memory, goroutines, files and child processes under load from misbehaving peers, for SOAKTIME
	go run ./bench/measure soak --time $(SOAKTIME)
	go run ./bench/measure replicas --time $(SOAKTIME)

cross: check-systems ## build for every supported system and processor
	for os in linux darwin windows; do for arch in amd64 arm64; do \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build -o /dev/null ./cmd/dragoman || exit 1; done; done

check-systems: ## types of all packages, tests included, for darwin, windows and a processor of 32 bits; go vet's checks of the packages with files for one system
	cd .ci/systems && go run .
