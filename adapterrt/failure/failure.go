// Package failure describes why a request failed, for the client and for the log.
//
// A [Failure] has a [Code] from a fixed list, a message whose wording is stable, and
// details as JSON. The code decides the HTTP status. Its Cause is only for logs.
// A [Notice] is a warning in a successful result.
package failure

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Code names what went wrong with a request.
type Code string

// The codes of failed requests. They go to clients as they are.
const (
	ValidationMissingParam     Code = "VALIDATION_MISSING_PARAM"
	ValidationInvalidType      Code = "VALIDATION_INVALID_TYPE"
	ValidationInvalidValue     Code = "VALIDATION_INVALID_VALUE"
	ValidationUnknownParam     Code = "VALIDATION_UNKNOWN_PARAM"
	ValidationUnknownField     Code = "VALIDATION_UNKNOWN_FIELD"
	ValidationInvalidEncoding  Code = "VALIDATION_INVALID_ENCODING"
	ValidationPayloadTooLarge  Code = "VALIDATION_PAYLOAD_TOO_LARGE"
	ValidationEndpointMismatch Code = "VALIDATION_ENDPOINT_MISMATCH"
	ValidationAmbiguous        Code = "VALIDATION_AMBIGUOUS_OPERATION"
	NotFoundOperation          Code = "NOT_FOUND_OPERATION"
	NotFoundResource           Code = "NOT_FOUND_RESOURCE"
	PermissionDenied           Code = "PERMISSION_DENIED"
	ConflictAlreadyExists      Code = "CONFLICT_ALREADY_EXISTS"
	ConflictVersionMismatch    Code = "CONFLICT_VERSION_MISMATCH"
	RateLimitExceeded          Code = "RATE_LIMIT_EXCEEDED"
	AuthCredentialMissing      Code = "AUTH_CREDENTIAL_MISSING"
	AuthInvalid                Code = "AUTH_CONFIG_INVALID"
	TransportDNS               Code = "TRANSPORT_DNS_ERROR"
	TransportRefused           Code = "TRANSPORT_CONNECTION_REFUSED"
	TransportTimeout           Code = "TRANSPORT_TIMEOUT"
	TransportTLS               Code = "TRANSPORT_TLS_ERROR"
	TransportNetwork           Code = "TRANSPORT_NETWORK_ERROR"
	TransportCircuitOpen       Code = "TRANSPORT_CIRCUIT_OPEN"
	SerializationParse         Code = "SERIALIZATION_PARSE_ERROR"
	InternalError              Code = "INTERNAL_ERROR"
	InvalidQueryType           Code = "INVALID_QUERY_TYPE"
	PermissionTrust            Code = "PERMISSION_TRUST_LEVEL_INSUFFICIENT"
	PermissionDanger           Code = "PERMISSION_DANGER_LEVEL_DENIED"
	ConfirmationRequired       Code = "CONFIRMATION_REQUIRED"
	ConfirmationUnavailable    Code = "CONFIRMATION_UNAVAILABLE"
	TokenInvalid               Code = "TOKEN_INVALID"
	TokenScopeMismatch         Code = "TOKEN_SCOPE_MISMATCH"
	TokenExpired               Code = "TOKEN_EXPIRED"
	TokenAlreadyUsed           Code = "TOKEN_ALREADY_USED"
	AuthTokenFailed            Code = "AUTH_TOKEN_FAILED"
	AuthLoginRequired          Code = "AUTH_LOGIN_REQUIRED"
)

// ErrCancelled is the cause of a failure if the caller has left and no longer waits for
// a result.
var ErrCancelled = errors.New("cancelled by the caller")

// Failure is the error that a client receives if a request fails.
type Failure struct {
	Code       Code
	Message    string
	Details    []byte        // a JSON object, or nil for none
	RetryAfter time.Duration // 0 if the API did not send it
	Caller     bool          // the reason is a credential that the caller has to send
	Own        bool          // the reason is a defect or the configuration of this program, not the API
	Cause      error         // only for the log; it may contain what clients must not see
	Original   string        // only for the debug log: the API's text before it was cleaned; secrets are masked

	Busy     bool   // there was no memory for the answer
	Answered int    // the HTTP status of the answer that could not be read or passed on; 0 for other failures
	FromAPI  bool   // the payload that was too large came from the API
	Beside   []byte // members next to error: ,"confirmation":{…}
}

func (f *Failure) Error() string { return string(f.Code) + ": " + f.Message }

// Unwrap returns the cause, which only logs may show.
func (f *Failure) Unwrap() error { return f.Cause }

// Status returns the HTTP status with which the plain endpoints answer.
func (f *Failure) Status() int {
	code := string(f.Code)
	switch f.Code {
	case ValidationPayloadTooLarge:
		if f.FromAPI {
			return 502
		}
		return 413
	case ValidationEndpointMismatch:
		return 405
	case TransportTimeout:
		return 504
	case TransportCircuitOpen, ConfirmationUnavailable:
		return 503
	case InternalError:
		if f.Busy {
			return 503
		}
		if f.Own {
			return 500
		}
		return 502
	case AuthCredentialMissing, AuthInvalid:
		if f.Caller {
			return 400 // not 401, which would need a challenge
		}
	case ConfirmationRequired:
		return 428
	case TokenScopeMismatch:
		return 403
	}
	switch family, _, _ := strings.Cut(code, "_"); family {
	case "NOT":
		return 404
	case "PERMISSION":
		return 403
	case "CONFLICT":
		return 409
	case "RATE":
		return 429
	case "TRANSPORT", "SERIALIZATION":
		return 502
	case "AUTH", "PLUGIN", "PROTOCOL":
		return 500
	}
	return 400
}

// Recoverable reports whether an agent can correct the request itself.
func (f *Failure) Recoverable() bool {
	switch family, _, _ := strings.Cut(string(f.Code), "_"); family {
	case "INTERNAL", "TRANSPORT", "SERIALIZATION", "AUTH", "PLUGIN", "PROTOCOL":
		return false
	}
	return true
}

// Cancelled returns the failure of a request whose caller has left.
func Cancelled() *Failure {
	return &Failure{Code: TransportTimeout, Message: "Request cancelled", Cause: ErrCancelled}
}

// InvalidValue returns the failure for a parameter with an invalid value. In the message,
// problem follows the parameter's name.
func InvalidValue(param, problem string) *Failure {
	return &Failure{
		Code:    ValidationInvalidValue,
		Message: "Parameter '" + param + "' " + problem,
		Details: wire.Members(nil).Str("param_name", param).End(),
	}
}

// InvalidType returns the failure for a parameter whose type is not the expected one.
func InvalidType(param, expected, actual string) *Failure {
	return &Failure{
		Code:    ValidationInvalidType,
		Message: "Parameter '" + param + "' expected '" + expected + "', got '" + actual + "'",
		Details: wire.Members(nil).Str("param_name", param).Str("expected_type", expected).Str("actual_type", actual).End(),
	}
}

// InvalidEncoding returns the failure for text that is not UTF-8 or contains characters
// that are not allowed.
func InvalidEncoding(location string, offset int) *Failure {
	return &Failure{
		Code:    ValidationInvalidEncoding,
		Message: "Invalid character encoding in request",
		Details: wire.Members(nil).Str("location", location).Int("byte_offset", int64(offset)).End(),
	}
}

// TooLarge returns the failure for a request or response that exceeds a limit. unit is
// the unit of limit and actual.
func TooLarge(limitType string, limit, actual int, unit string) *Failure {
	return &Failure{
		Code:    ValidationPayloadTooLarge,
		Message: "Payload exceeds " + limitType + " limit of " + strconv.Itoa(limit),
		Details: wire.Members(nil).Str("limit_type", limitType).Int("limit_value", int64(limit)).Int("actual_value", int64(actual)).Str("unit", unit).End(),
	}
}

// BadJSON returns a description of why a text is not JSON. No description may contain "at"
// before a space, because conformance runs take that for a line of a stack trace.
func BadJSON(r wire.Reason) string {
	switch r {
	case wire.EndsEarly:
		return "unexpected end of input"
	case wire.BadUTF8:
		return "invalid UTF-8"
	case wire.TrailingData:
		return "trailing data"
	case wire.TooDeep:
		return "nesting too deep"
	}
	return "unexpected character"
}

// maxAdapters is the largest number of adapters that a failure names.
const maxAdapters = 20

// Ambiguous returns the failure for an operation name that several adapters have.
// adapters holds at least two names.
func Ambiguous(name string, adapters []string) *Failure {
	adapters = adapters[:min(len(adapters), maxAdapters)]
	return &Failure{
		Code: ValidationAmbiguous,
		Message: "'" + name + "' is in " + strings.Join(adapters, ", ") + ". Use '" + adapters[0] + "." + name + "' or '" +
			adapters[1] + "." + name + "'.",
		Details: wire.Members(nil).Str("operation", name).Strs("adapters", adapters).End(),
	}
}

// Ours returns the failure for a defect of this program. The client receives only the
// request's id; cause is for the log.
func Ours(id string, cause error) *Failure {
	f := &Failure{Code: InternalError, Message: "Operation failed: INTERNAL_ERROR", Own: true, Cause: cause}
	if id != "" {
		f.Details = wire.Members(nil).Str("request_id", id).End()
	}
	return f
}

// NoRoom returns the failure for an answer for which there was no memory. cause is for the log.
func NoRoom(cause error) *Failure {
	return &Failure{Code: InternalError, Message: "The memory for answers is full. Try again later.", Own: true, Busy: true, RetryAfter: time.Second, Cause: cause}
}

// Notice is a warning inside a successful result.
type Notice struct {
	Code     string
	Message  string
	Details  []byte // a JSON object, or nil
	Severity string // low, medium, high, or "" for none
}
