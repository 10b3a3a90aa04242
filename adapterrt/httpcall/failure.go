package httpcall

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func missingParam(op string, p *file.Param, missing []string) *failure.Failure {
	return &failure.Failure{
		Code:    failure.ValidationMissingParam,
		Message: "Missing required parameter '" + p.Name + "'. Expected: " + p.Type.String() + ".",
		Details: wire.Members(nil).Str("param_name", p.Name).Str("operation", op).Str("expected_type", p.Type.String()).Strs("missing", missing).End(),
	}
}

// unfit is the failure for a parameter with a mismatch; raw is its value.
func unfit(p *file.Param, m *file.Mismatch, raw []byte) *failure.Failure {
	name := p.Name + m.Where
	f := &failure.Failure{Code: failure.ValidationInvalidValue, Message: "Parameter '" + name + "' " + m.Text}
	d := wire.Members(nil).Str("param_name", name)
	if m.WrongType {
		f.Code = failure.ValidationInvalidType
		d = d.Str("expected_type", m.Expected).Str("actual_type", m.Actual)
	} else {
		d = d.Raw(m.Key, m.Limit)
	}
	if k := wire.KindOf(raw); m.Where == "" && !p.Sensitive && k < wire.Array && len(raw) <= 200 && !(k == wire.String && clean.MayHaveSecret(string(raw))) {
		d = d.Raw("value", raw)
	}
	f.Details = d.End()
	return f
}

// The most names in a list of unknown ones.
const MaxUnknown = 100

// UnknownParams is the failure for parameters that the operation does not have.
func UnknownParams(op *file.Operation, unknown []string) *failure.Failure {
	if len(unknown) > MaxUnknown {
		unknown = unknown[:MaxUnknown]
	}
	names := make([]string, 0, len(op.Params))
	for _, p := range op.Params {
		if !p.Hidden {
			names = append(names, p.Name)
		}
	}
	list := strings.Join(names, ", ")
	if list == "" {
		list = "none"
	}
	return &failure.Failure{
		Code:    failure.ValidationUnknownParam,
		Message: "Unknown parameter(s) for operation '" + op.Name + "': " + strings.Join(unknown, ", ") + ". Valid parameters: " + list + ".",
		Details: wire.Members(nil).Str("operation", op.Name).Strs("unknown_params", unknown).Strs("valid_params", names).End(),
	}
}
