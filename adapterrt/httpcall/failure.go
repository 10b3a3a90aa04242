package httpcall

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// missingParam returns the failure for missing required parameters; p is the first of them. It
// also names the unknown parameters, because one of them may be p misspelt.
func missingParam(op *file.Operation, p *file.Param, missing, unknown []string) *failure.Failure {
	d := wire.Members(nil).Str("param_name", p.Name).Str("operation", op.Name).Str("expected_type", p.Type.String()).Strs("missing", missing)
	if len(unknown) > 0 {
		d = d.Strs("unknown_params", unknown[:min(len(unknown), MaxUnknown)])
		d = meant(d, unknown, op)
	}
	return &failure.Failure{
		Code:    failure.ValidationMissingParam,
		Message: "Missing required parameter '" + p.Name + "'. Expected: " + p.Type.String() + ".",
		Details: d.End(),
	}
}

// maxSuggested is the largest number of unknown parameters for which a name is suggested.
const maxSuggested = 10

// meant adds the parameter that was probably meant, for each unknown parameter.
func meant(d wire.Members, unknown []string, op *file.Operation) wire.Members {
	names := op.Names()
	list := wire.Members(nil)
	for _, u := range unknown[:min(len(unknown), maxSuggested)] {
		found := near.Names(u, names, 1)
		if len(found) == 0 && len(u) > 1 { // such as query, if the parameter is q
			if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(u, n) || strings.HasPrefix(n, u) }); i >= 0 {
				found = names[i : i+1]
			}
		}
		if len(found) > 0 {
			list = list.Str(u, found[0])
		}
	}
	if len(list) == 0 {
		return d
	}
	return d.Raw("did_you_mean", list.End())
}

// unfit returns the failure for a parameter with a mismatch; raw is its value.
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
	if k := wire.KindOf(raw); m.Where == "" && !p.Sensitive && !secret.Named(p.Name) && k < wire.Array && len(raw) <= 200 && !(k == wire.String && clean.MayHaveSecret(string(raw))) {
		d = d.Raw("value", raw)
	}
	f.Details = d.End()
	return f
}

// MaxUnknown is the largest number of names in a list of unknown parameters.
const MaxUnknown = 100

// UnknownParams returns the failure for parameters that the operation does not have.
func UnknownParams(op *file.Operation, unknown []string) *failure.Failure {
	if len(unknown) > MaxUnknown {
		unknown = unknown[:MaxUnknown]
	}
	names := op.Names()
	list := cmp.Or(strings.Join(names, ", "), "none")
	return &failure.Failure{
		Code:    failure.ValidationUnknownParam,
		Message: "Unknown parameter(s) for operation '" + op.Name + "': " + strings.Join(unknown, ", ") + ". Valid parameters: " + list + ".",
		Details: meant(wire.Members(nil).Str("operation", op.Name).Strs("unknown_params", unknown).Strs("valid_params", names), unknown, op).End(),
	}
}
