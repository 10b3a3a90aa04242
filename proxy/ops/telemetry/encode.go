package telemetry

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields that are sent. See
// https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto.
const (
	requestResourceSpans = 1 // ExportTraceServiceRequest

	resourceSpansResource, resourceSpansScopeSpans = 1, 2
	resourceAttributes                             = 1
	scopeSpansScope, scopeSpansSpans               = 1, 2
	scopeName, scopeVersion                        = 1, 2

	spanTraceID, spanSpanID, spanTraceState, spanParent, spanName, spanKind = 1, 2, 3, 4, 5, 6
	spanStart, spanEnd, spanAttributes, spanLinks, spanStatus, spanFlags    = 7, 8, 9, 13, 15, 16

	linkTraceID, linkSpanID, linkTraceState, linkFlags = 1, 2, 3, 6
	statusMessage, statusCode                          = 2, 3

	attributeKey, attributeValue         = 1, 2
	valueString, valueInt, valueArray    = 1, 3, 5
	arrayValues                          = 1
	responsePartial                      = 1 // ExportTraceServiceResponse
	partialRejected, partialErrorMessage = 1, 2
)

// The values of enumerations.
const (
	kindServer, kindClient = 2, 3
	statusError            = 2
	hasIsRemote, isRemote  = 1 << 8, 1 << 9 // of the flags of spans and links
)

// nested appends a field that is a message, whose content body appends.
func nested(dst []byte, field protowire.Number, body func([]byte) []byte) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	at := len(dst)
	dst = body(dst)
	return prefixed(dst, at)
}

// prefixed inserts before dst[at:] its length.
func prefixed(dst []byte, at int) []byte {
	var b [binary.MaxVarintLen64]byte
	length := len(dst) - at
	n := binary.PutUvarint(b[:], uint64(length))
	dst = append(dst, b[:n]...)
	copy(dst[at+n:], dst[at:at+length])
	copy(dst[at:], b[:n])
	return dst
}

func text(dst []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

func octets(dst []byte, field protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), b)
}

func varint(dst []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

func nanoseconds(dst []byte, field protowire.Number, at int64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), uint64(at))
}

// attributes appends attributes to a message in which they have this field.
type attributes struct {
	to    []byte
	field protowire.Number
}

// text appends an attribute, unless its value is empty.
func (a *attributes) text(key, value string) {
	if value != "" {
		a.to = text(a.begin(key, 1+protowire.SizeBytes(len(value))), valueString, value)
	}
}

// number appends an attribute, unless its value is 0.
func (a *attributes) number(key string, value int64) {
	if value != 0 {
		a.to = varint(a.begin(key, 1+protowire.SizeVarint(uint64(value))), valueInt, uint64(value))
	}
}

// begin appends an attribute up to its value, of this many bytes with its tag.
func (a *attributes) begin(key string, value int) []byte {
	dst := protowire.AppendTag(a.to, a.field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeBytes(len(key))+1+protowire.SizeBytes(value)))
	dst = protowire.AppendTag(text(dst, attributeKey, key), attributeValue, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(value))
}

// list appends an attribute, unless it has no values.
func (a *attributes) list(key string, values []string) {
	if len(values) == 0 {
		return
	}
	a.to = nested(a.to, a.field, func(b []byte) []byte {
		return nested(text(b, attributeKey, key), attributeValue, func(b []byte) []byte {
			return nested(b, valueArray, func(b []byte) []byte {
				for _, v := range values {
					b = nested(b, arrayValues, func(b []byte) []byte { return text(b, valueString, v) })
				}
				return b
			})
		})
	})
}

// aSpan appends a span, whose content body appends. Its length nearly always takes two bytes.
func aSpan(dst []byte, body func([]byte) []byte) []byte {
	dst = protowire.AppendTag(dst, scopeSpansSpans, protowire.BytesType)
	at := len(dst)
	dst = body(append(dst, 0, 0))
	if n := len(dst) - at - 2; protowire.SizeVarint(uint64(n)) == 2 {
		dst[at], dst[at+1] = byte(n)|0x80, byte(n>>7)
		return dst
	}
	copy(dst[at:], dst[at+2:])
	return prefixed(dst[:len(dst)-2], at)
}

// head appends what a span has without its attributes and its status.
func (s *span) head(dst []byte) []byte {
	dst = octets(octets(dst, spanTraceID, s.at.trace[:]), spanSpanID, s.at.span[:])
	if s.at.state != "" {
		dst = text(dst, spanTraceState, s.at.state)
	}
	if s.parent.valid() {
		dst = octets(dst, spanParent, s.parent.span[:])
	}
	dst = varint(dst, spanKind, s.kind)
	dst = nanoseconds(nanoseconds(dst, spanStart, s.began), spanEnd, s.ended)
	dst = flags(dst, spanFlags, &s.at, s.parent.remote)
	for i := range s.links {
		l := &s.links[i]
		dst = nested(dst, spanLinks, func(b []byte) []byte {
			b = octets(octets(b, linkTraceID, l.trace[:]), linkSpanID, l.span[:])
			if l.state != "" {
				b = text(b, linkTraceState, l.state)
			}
			return flags(b, linkFlags, l, l.remote)
		})
	}
	return dst
}

func flags(dst []byte, field protowire.Number, c *spanContext, remote bool) []byte {
	f := uint32(c.flags) | hasIsRemote
	if remote {
		f |= isRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(dst, field, protowire.Fixed32Type), f)
}

// appendRequest appends an ExportTraceServiceRequest up to the spans, which have size bytes in all and follow. resource
// and scope are fields of ResourceSpans and ScopeSpans.
func appendRequest(dst, resource, scope []byte, size int) []byte {
	spans := len(scope) + size
	all := len(resource) + protowire.SizeTag(resourceSpansScopeSpans) + protowire.SizeBytes(spans)
	dst = protowire.AppendTag(dst, requestResourceSpans, protowire.BytesType)
	dst = append(protowire.AppendVarint(dst, uint64(all)), resource...)
	dst = protowire.AppendTag(dst, resourceSpansScopeSpans, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(spans)), scope...)
}

// rejected returns how many spans an ExportTraceServiceResponse says were rejected, and why.
func rejected(response []byte) (spans int64, why string) {
	partial, _ := last(response, responsePartial)
	said, _ := last(partial, partialErrorMessage)
	_, n := last(partial, partialRejected)
	return int64(n), string(said)
}

// last returns the value of a message's last field with this number: its bytes, or its number.
func last(b []byte, field protowire.Number) (value []byte, n uint64) {
	for len(b) > 0 {
		num, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil, 0
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(num, kind, b); size < 0 {
			return nil, 0
		}
		switch {
		case num != field:
		case kind == protowire.BytesType:
			value, _ = protowire.ConsumeBytes(b)
		case kind == protowire.VarintType:
			n, _ = protowire.ConsumeVarint(b)
		}
		b = b[size:]
	}
	return value, n
}
