package telemetry

import (
	"bytes"
	"math"
	"strings"
	"testing"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// TestSpanOfEachLength: its length is written in the fewest bytes, as protobuf's own functions do.
func TestSpanOfEachLength(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 1 << 21} {
		body := bytes.Repeat([]byte{'x'}, n)
		got := aSpan([]byte("before"), func(b []byte) []byte { return append(b, body...) })
		want := protowire.AppendBytes(protowire.AppendTag([]byte("before"), scopeSpansSpans, protowire.BytesType), body)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: begins with %x of %d, want %x of %d", n, got[:min(len(got), 12)], len(got), want[:min(len(want), 12)], len(want))
		}
	}
}

// TestAttributes: protobuf reads what was written, of every length, and an attribute without a value is left out.
func TestAttributes(t *testing.T) {
	read := func(b []byte) *common.KeyValue {
		t.Helper()
		field, kind, n := protowire.ConsumeTag(b)
		if field != spanAttributes || kind != protowire.BytesType {
			t.Fatalf("field %d of type %d in %.40x", field, kind, b)
		}
		raw, size := protowire.ConsumeBytes(b[n:])
		if size != len(b)-n {
			t.Fatalf("%d of %d bytes", size, len(b)-n)
		}
		kv := new(common.KeyValue)
		if err := proto.Unmarshal(raw, kv); err != nil {
			t.Fatal(err)
		}
		return kv
	}
	for _, n := range []int{1, 100, 115, 116, 117, 118, 127, 128, 16383, 16384} {
		value := string(bytes.Repeat([]byte{'v'}, n))
		a := attributes{field: spanAttributes}
		a.text("a.key", value)
		if kv := read(a.to); kv.Key != "a.key" || kv.Value.GetStringValue() != value {
			t.Errorf("%d bytes: %.80v", n, kv)
		}
	}
	for _, n := range []int64{1, 127, 128, math.MaxInt64, -1, math.MinInt64} {
		a := attributes{field: spanAttributes}
		a.number("a.key", n)
		if kv := read(a.to); kv.Key != "a.key" || kv.Value.GetIntValue() != n {
			t.Errorf("%d: %v", n, kv)
		}
	}
	a := attributes{field: spanAttributes}
	a.text("a.key", "")
	a.number("a.key", 0)
	a.list("a.key", nil)
	if len(a.to) > 0 {
		t.Errorf("%x", a.to)
	}
}

func TestHostAndPort(t *testing.T) {
	for address, want := range map[string][2]string{
		"192.0.2.1": {"192.0.2.1", ""}, "192.0.2.1:80": {"192.0.2.1", "80"}, "mcp.example.com": {"mcp.example.com", ""},
		"mcp.example.com:8443": {"mcp.example.com", "8443"}, "2001:db8::1": {"2001:db8::1", ""}, "::": {"::", ""},
		"[2001:db8::1]:443": {"2001:db8::1", "443"}, "[2001:db8::1]": {"2001:db8::1", ""}, "fe80::1%eth0": {"fe80::1%eth0", ""},
		"[fe80::1%eth0]:1": {"fe80::1%eth0", "1"}, ":80": {"", "80"}, ":": {"", ""}, "": {"", ""}, "[": {"", ""}, "]:": {"", ""},
	} {
		if host, port := hostAndPort(address); host != want[0] || port != want[1] {
			t.Errorf("%q: %q, %q", address, host, port)
		}
	}
}

// TestEdgesAtSockets: a client's user and the path of a server's socket are addresses, too.
func TestEdgesAtSockets(t *testing.T) {
	for e, want := range map[Edge]string{
		{Address: "uid 1000"}:              "network.transport=unix network.protocol.name=http client.address=uid 1000",
		{Address: "unix:/run/server.sock"}: "network.transport=unix network.protocol.name=http server.address=/run/server.sock",
		{Address: "192.0.2.1"}:             "network.transport=tcp network.protocol.name=http client.address=192.0.2.1",
	} {
		kind := uint64(kindServer)
		if strings.Contains(want, "server.address") {
			kind = kindClient
		}
		a := attributes{field: spanAttributes}
		e.describe(&a, kind)
		var all []string
		for rest := a.to; len(rest) > 0; {
			_, _, n := protowire.ConsumeTag(rest)
			raw, size := protowire.ConsumeBytes(rest[n:])
			kv := new(common.KeyValue)
			if err := proto.Unmarshal(raw, kv); err != nil {
				t.Fatal(err)
			}
			all, rest = append(all, kv.Key+"="+kv.Value.GetStringValue()), rest[n+size:]
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%+v: %s, want %s", e, got, want)
		}
	}
}
