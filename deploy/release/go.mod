module github.com/dragoman-proxy/dragoman/deploy/release

go 1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	golang.org/x/mod v0.42.0
)
