package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// disagreements returns the places where an adapter contradicts its API's document.
func disagreements(doc map[string]any, a *file.Adapter) (all []string) {
	for _, op := range a.Operations {
		say := func(format string, v ...any) { all = append(all, op.Name+": "+fmt.Sprintf(format, v...)) }
		method, shared := findPath(doc, op.Mapping)
		if method == nil {
			say("there is no %s %s", op.Mapping.Method, op.Mapping.Template)
			continue
		}
		params := map[string]map[string]any{} // by place and name
		for _, list := range []any{shared, method["parameters"]} {
			elements, _ := list.([]any)
			for _, e := range elements {
				p := resolved(doc, e)
				params[fmt.Sprint(p["in"], " ", p["name"])] = p
			}
		}
		body := resolved(doc, method["requestBody"])
		schema := resolved(doc, within(body, "content", "application/json", "schema"))
		given := map[string]bool{} // parameters of the body
		for _, p := range op.Params {
			if p.Place == file.InRuntime {
				continue
			}
			var s map[string]any
			required := false
			switch p.Place {
			case file.InPath:
				continue // findPath has checked it
			case file.InQuery:
				found := params["query "+p.Wire]
				s, required = resolved(doc, found["schema"]), found["required"] == true
				if found == nil {
					say("no query parameter %s", p.Wire)
					continue
				}
			case file.InBody:
				given[p.Wire] = p.Required
				members := membersOf(doc, schema)
				if members[p.Wire] == nil {
					if len(members) > 0 {
						say("no member %s of the body", p.Wire)
					}
					continue
				}
				s, required = resolved(doc, members[p.Wire]), slices.Contains(requiredOf(schema), p.Wire)
			default:
				continue
			}
			if required && !p.Required && !p.Hidden {
				say("%s is required", p.Wire)
			}
			for _, problem := range definitionDisagrees(doc, s, &p.Definition) {
				say("%s %s", p.Wire, problem)
			}
		}
		for _, name := range requiredOf(schema) {
			if _, ok := given[name]; !ok {
				say("the body needs %s", name)
			}
		}
		if must := body["required"] == true; must && (op.Request == nil || !op.Request.Required) && !anyRequired(given) {
			say("a body is required, and may be empty here: body_required")
		}
	}
	return all
}

func anyRequired(given map[string]bool) bool {
	for _, required := range given {
		if required {
			return true
		}
	}
	return false
}

// findPath returns the operation of a document that a mapping names, whatever the names of its placeholders.
func findPath(doc map[string]any, m *file.Mapping) (method map[string]any, shared any) {
	want, _, _ := strings.Cut(m.Template, "?")
	shape := func(path string) string {
		parts := strings.Split(path, "/")
		for i, p := range parts {
			if strings.HasPrefix(p, "{") {
				parts[i] = "{}"
			}
		}
		return strings.Join(parts, "/")
	}
	paths, _ := doc["paths"].(map[string]any)
	for path, item := range paths {
		// A ref may be the rest of the path: heads/{branch} is one.
		if shape(path) == shape(want) || shape(path) == shape(strings.Replace(want, "/heads/{branch}", "/{ref}", 1)) {
			method, _ = within(item, strings.ToLower(m.Method)).(map[string]any)
			return method, within(item, "parameters")
		}
	}
	return nil, nil
}

// membersOf returns the members that an object may have, in any of its forms.
func membersOf(doc map[string]any, schema map[string]any) map[string]any {
	all := map[string]any{}
	if members, ok := schema["properties"].(map[string]any); ok {
		for k, v := range members {
			all[k] = v
		}
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		list, _ := schema[key].([]any)
		for _, e := range list {
			for k, v := range membersOf(doc, resolved(doc, e)) {
				all[k] = v
			}
		}
	}
	return all
}

func requiredOf(schema map[string]any) (names []string) {
	list, _ := schema["required"].([]any)
	for _, e := range list {
		names = append(names, fmt.Sprint(e))
	}
	return names
}

// definitionDisagrees returns how a definition allows values that a schema does not.
func definitionDisagrees(doc, schema map[string]any, d *file.Definition) (all []string) {
	if schema == nil || schema["oneOf"] != nil || schema["anyOf"] != nil {
		return nil
	}
	types := fmt.Sprint(schema["type"])
	if want := d.Type.String(); schema["type"] != nil && !strings.Contains(types, want) && !(want == "integer" && types == "number") && !(want == "array" && types == "string") {
		all = append(all, fmt.Sprintf("is of type %s, not %s", types, want))
	}
	if words, ok := schema["enum"].([]any); ok {
		for _, e := range d.Enum {
			if !slices.ContainsFunc(words, func(w any) bool { return fmt.Sprint(w) == e.Text }) {
				all = append(all, "cannot be "+e.Text)
			}
		}
	}
	if d.Items != nil && schema["items"] != nil {
		for _, p := range definitionDisagrees(doc, resolved(doc, schema["items"]), d.Items) {
			all = append(all, "[] "+p)
		}
	}
	if d.Properties != nil {
		members := membersOf(doc, schema)
		there := map[string]bool{}
		for i := range *d.Properties {
			p := &(*d.Properties)[i]
			there[p.Name] = p.Required
			if members[p.Name] == nil {
				all = append(all, "has no member "+p.Name)
				continue
			}
			for _, problem := range definitionDisagrees(doc, resolved(doc, members[p.Name]), &p.Definition) {
				all = append(all, "."+p.Name+" "+problem)
			}
		}
		for _, name := range requiredOf(schema) {
			if !there[name] {
				all = append(all, "needs "+name)
			}
		}
	}
	return all
}
