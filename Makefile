# Each target is one plain command that also works when typed.

.PHONY: docs judges build release test test-code test-peers test-deploy check golden fuzz bench compare soak cross

FUZZTIME ?= 6m

build: ## the command, in bin/
	go build -trimpath -o bin/dragoman ./cmd/dragoman

release: ## archives for six platforms, their bills of materials and checksums, in dist/
	cd deploy/release && go run .

TEST ?= go test -timeout 20m

test: test-code test-peers ## everything; the latter mostly wait, so that -j2 takes little longer than the former alone

WITHOUT_RACE = ./cmd/proxy/e2e ./bench/capper ./bench/compare ./bench/corpus

test-code: ## with the race detector
	CGO_ENABLED=1 $(TEST) -race $$(go list ./... | grep -vFx "$$(go list $(WITHOUT_RACE))")

test-peers: ## published clients and servers around the command itself, and what runs the command to measure it: without the race detector
	$(TEST) $(WITHOUT_RACE)

test-deploy: ## deployment files and the release, in modules of their own
	cd deploy/check && go vet ./... && $(TEST) ./...
	cd deploy/release && go vet ./... && $(TEST) ./...

judges: ## vendors' own documents against our requests and the shipped adapters; npm unpacks 450 MB for it
	DRAGOMAN_JUDGES=1 $(TEST) -v ./cmd/proxy/e2e -run 'TestGitHub|TestNotion|TestLinear|TestStripe'

check: ## what a reviewer would not want to say
	test -z "$$(gofmt -l .)"
	go vet ./...
	go mod tidy -diff

golden: ## rewrite the lower halves of the golden cases; then read the diff
	go test ./translate -run TestGolden -update

docs: ## rewrite what the documents have of the code: settings, causes of failures, metrics, rules
	go test ./proxy/config ./proxy -run 'TestReference|TestOperationsPage' -update
	go test ./translate -run TestReferenceOfRules -update

fuzz: ## every fuzz target; they share FUZZTIME
	go run ./bench/fuzzall -total $(FUZZTIME) ./...

bench: ## benchstat-ready; bench/README.md says what each one measures
	go test ./adapterrt ./bench ./proxy/... ./transform/... ./translate/... -run '^$$' -bench . -benchmem

compare: ## end to end beside other proxies, about two minutes
	go run ./bench/compare

SOAKTIME ?= 10m

soak: ## what dragoman holds under load from bad clients and servers, for SOAKTIME
	go run ./bench/soak -time $(SOAKTIME)

cross: ## the systems and processors we build for; only the systems differ in their files
	for os in linux darwin windows; do for arch in amd64 arm64; do \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build -o /dev/null ./cmd/dragoman || exit 1; done; done
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go vet ./...
