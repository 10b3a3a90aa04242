// The Go SDK as it was when it closed its client on every status but 2xx.
module github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/testdata/gosdk-1.1.0

go 1.26

require github.com/modelcontextprotocol/go-sdk v1.1.0

require (
	github.com/google/jsonschema-go v0.3.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.30.0 // indirect
)
