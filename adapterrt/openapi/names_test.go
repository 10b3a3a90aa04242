package openapi_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestNames checks the names of the operations of a file, in the order of the document.
func TestNames(t *testing.T) {
	long := func(end string) string { return "administration_organizations_" + end }
	for name, c := range map[string]struct {
		ops  [][3]string // method, path, operationId
		want []string
	}{
		"different methods": {[][3]string{{"get", "/policy", "policy"}, {"delete", "/policy", "policy"}}, []string{"get_policy", "delete_policy"}},
		"all and one": {[][3]string{{"delete", "/policies", "delete_policy"}, {"delete", "/policies/{id}", "delete_policy"}},
			[]string{"delete_policy", "delete_policy_by_id"}},
		"numbers of a generator": {[][3]string{{"get", "/a", "list"}, {"get", "/b", "list_1"}, {"delete", "/b/{id}", "list_2"}}, []string{"list_a", "list_b", "delete_list_b"}},
		"numbers without a line": {[][3]string{{"get", "/users", "Users"}, {"get", "/users/{id}", "Users2"}, {"delete", "/users/{id}", "Users3"}},
			[]string{"get_users", "get_users_by_id", "delete_users"}},
		"numbers that mean something": {[][3]string{{"get", "/v1/pets", "getPetsV1"}, {"get", "/v2/pets", "getPetsV2"}, {"get", "/ipv4", "getIpv4"}, {"get", "/ipv6", "getIpv6"}},
			[]string{"get_pets_v1", "get_pets_v2", "get_ipv4", "get_ipv6"}},
		"versions":             {[][3]string{{"get", "/v1/pets", "getPets"}, {"get", "/v2/pets", "getPets"}}, []string{"get_pets_v1", "get_pets_v2"}},
		"owners":               {[][3]string{{"get", "/orgs/{org}/runners", "listRunners"}, {"get", "/repos/{repo}/runners", "listRunners"}}, []string{"list_runners_orgs", "list_runners_repos"}},
		"a name that is taken": {[][3]string{{"get", "/a", "list"}, {"get", "/b", "list"}, {"get", "/c", "list_a"}}, []string{"list_a_get", "list_b", "list_a"}},
		"words are abbreviated": {[][3]string{
			{"delete", "/x", long("delete_configurations_for_all_repositories_in_environment")},
			{"delete", "/x/{id}", long("delete_configurations_for_one_repository_in_environment")}},
			[]string{"admin_org_delete_configs_for_all_repos_in_env", "admin_org_delete_configs_for_one_repo_in_env"}},
		"what tells siblings apart is kept": {[][3]string{
			{"put", "/x", "update_" + strings.Repeat("very_", 20) + "long_settings_of_users"},
			{"put", "/y", "update_" + strings.Repeat("very_", 10) + "tiny_" + strings.Repeat("very_", 10) + "long_settings_of_users"},
			{"put", "/z", "update_" + strings.Repeat("very_", 10) + "huge_" + strings.Repeat("very_", 10) + "long_settings_of_users"}},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := names(t, c.ops)
			for i, n := range got {
				if len(n) > 64 || c.want != nil && c.want[i] != n {
					t.Errorf("%d: got %v, want %v", i, got, c.want)
					break
				}
			}
			if c.want == nil && (!strings.HasPrefix(got[0], "update_") || !strings.Contains(got[1], "tiny") || !strings.Contains(got[2], "huge")) {
				t.Errorf("%q", got)
			}
		})
	}
}

// names imports operations and returns their names in the order of the document.
func names(t *testing.T, ops [][3]string) (out []string, in *openapi.Import) {
	t.Helper()
	at := map[string][]string{}
	var order []string
	for _, op := range ops {
		if at[op[1]] == nil {
			order = append(order, op[1])
		}
		at[op[1]] = append(at[op[1]], fmt.Sprintf("%s: {operationId: %q, responses: {'200': {description: x}}}", op[0], op[2]))
	}
	var paths []string
	for _, p := range order {
		paths = append(paths, "'"+p+"': {"+strings.Join(at[p], ", ")+"}")
	}
	in = importOf(t, document(strings.Join(paths, ", "), ""))
	found := map[string]string{}
	for name, place := range named(in.Files[0]) {
		found[place] = name
	}
	for _, op := range ops {
		out = append(out, found[strings.ToUpper(op[0])+" "+op[1]])
	}
	return out, in
}

var (
	nameLine = regexp.MustCompile(`(?m)^    - name: (\S+)\n      maps_to: (.*)`)
	digits   = regexp.MustCompile(`_?[0-9]+`)
)

// named returns the method and path of each operation of a file, by its name.
func named(f *openapi.File) map[string]string {
	out := map[string]string{}
	for _, m := range nameLine.FindAllStringSubmatch(string(f.Front()), -1) {
		out[m[1]] = strings.Trim(m[2], `"`)
	}
	return out
}

// documents calls f with each document at hand: those of testdata, those of the modules in the
// module cache, and those in a directory that a variable names.
func documents(t *testing.T, f func(name string, d *openapi.Document)) {
	t.Helper()
	roots := []string{"testdata"}
	for _, module := range []string{"github.com/stripe/stripe-mock@*", "github.com/go-openapi/validate@*", "github.com/getkin/kin-openapi@*"} {
		found, _ := filepath.Glob(filepath.Join(moduleCache(), filepath.FromSlash(module)))
		roots = append(roots, found...)
	}
	if dir := os.Getenv(documentsPath); dir != "" {
		roots = append(roots, dir)
	}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".yaml") {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil || len(data) > 16<<20 {
				return nil
			}
			folder := filepath.Dir(path)
			d, err := openapi.Read(filepath.Base(path), data, func(at string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, at)) })
			if err == nil {
				f(path, d)
			}
			return nil
		})
	}
}

// TestNoNameDiffersByANumberAlone checks all documents at hand: of two operations whose names are equal but for a number,
// the number is in the path of each, or in the document's own name for it.
func TestNoNameDiffersByANumberAlone(t *testing.T) {
	seen, all := 0, 0
	documents(t, func(name string, d *openapi.Document) {
		in, err := d.Import(openapi.Options{Name: "names", Server: "https://h.example.com"})
		if err != nil {
			return
		}
		seen++
		for _, f := range in.Files {
			stems := map[string]string{}
			for op, place := range named(f) {
				all++
				if len(op) > 64 {
					t.Errorf("%s: %s is too long", name, op)
				}
				stem := digits.ReplaceAllString(op, "")
				other, there := stems[stem]
				if !there {
					stems[stem] = op
					continue
				}
				for _, n := range [2]string{op, other} {
					for _, number := range digits.FindAllString(n, -1) {
						if number = strings.Trim(number, "_"); strings.Contains(op, number) != strings.Contains(other, number) && !strings.Contains(named(f)[n], number) {
							t.Errorf("%s: %s (%s) and %s (%s) differ by a number alone", name, op, place, other, named(f)[other])
						}
					}
				}
			}
		}
	})
	t.Logf("%d documents, %d operations", seen, all)
}
