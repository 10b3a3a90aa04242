package adapterrt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// acceptance lists the promises for which the runtime was accepted, and the tests that show them.
var acceptance = []struct{ promise, tests string }{
	{"front matter with BOM, with CRLF, not closed, with --- inside", "TestFrontMatter TestDocumentationIsKeptVerbatim TestScalarsAreYAML12 FuzzFrontMatter"},
	{"each row of validation, all mistakes at once", "TestEachMistakeIsReported TestMappings TestVersionsAreSemVer TestStrictFilesRefuseWarnings TestAllMistakesOfAllFilesAreReported TestSameNameTwiceIsRefused TestProblemAsJSON FuzzMapping"},
	{"each row of validation beyond the draft", "TestTrustMistakes TestLimitMistakes TestPaginationMistakes TestCacheMistakes TestGraphQLMistakes TestGateMistakes TestOAuthMistakes TestTypeMistakes"},
	{"the public example of 20 operations loads, and its operations send the requests that it declares", "TestThePublicExample TestOurFileOfTwentyOperations"},
	{"the table of path encoding and the four traversals", "TestPathValues TestPathTraversalsAreRefused FuzzPathValue"},
	{"no value changes the scheme or host of a request, or leaves its path segment", "TestValuesCannotChangeTheShapeOfAURL"},
	{"the base path is kept, also before an empty first placeholder; all rows of placement", "TestPlacement TestFormBody"},
	{"no header is injected", "TestHeaderParameters TestTheTraceIsForwardedAndNothingElse TestRequestIDIsForwarded"},
	{"each row of parsing over real sockets, truncated, bombs, 10 MiB ± 1", "TestResponsesBecomeResults TestTransportFailures TestDecompressionBombIsRefused TestResponseSizeLimit FuzzResult"},
	{"the table of statuses", "TestStatusTable TestErrorMessages"},
	{"the causes of transport failures", "TestTransportFailures TestExpiredCertificate TestAddressPolicy TestCredentialsDoNotFollowRedirects TestOnlySafeRequestsAreRepeated"},
	{"the wrong endpoint, for each pair", "TestEachOperationHasItsEndpoint"},
	{"introspection is complete, and valid in both modes", "TestIntrospectionIsComplete TestIntrospectionConforms TestListedParametersAreAccepted TestSchemasAreClosed"},
	{"no message looks like a leak", "TestNoMessageLooksLikeALeak TestNoLiteralLooksLikeALeak TestUpstreamWordsAreSanitised"},
	{"credentials are not shown, and are sent only to their API", "TestCredentialsNeverShow TestCredentialsGoOverHTTPSOnly TestCredentialsDoNotFollowRedirects TestPreviewSendsNothingAndMasks"},
	{"the tables of isError and of HTTP statuses", "TestFailureCodesHaveAStatus TestToolResults TestHTTPEndpoints"},
	{"the table of gates, and a schema that changes between two calls", "TestGate"},
	{"reload under load without a failed call", "TestReloadUnderLoad TestNoCallFailsWhileTheFileChanges TestAChangedAdapterFileIsLoaded TestABrokenChangeKeepsTheOldAndSaysWhy"},
	{"a confirmation is not replayed", "TestConfirmation"},
	{"two adapters with the same operation", "TestTwoAdaptersWithTheSameOperation"},
	{"budgets: allocations, memory, the size of tools/list", "TestDispatchAllocatesLittle TestAThousandAdaptersTakeLittleMemory TestSharedToolsDoNotGrowWithTheAdapters"},
}

func TestEveryPromiseOfTheDesignHasATest(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	there := map[string]bool{}
	for _, tests := range []string{"*_test.go", "*/*_test.go", "../cmd/command/*_test.go"} {
		files, err := filepath.Glob(tests)
		if err != nil || len(files) == 0 {
			t.Fatal(tests, files, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					there[fn.Name.Name] = true
				}
			}
		}
	}
	for _, a := range acceptance {
		for _, name := range strings.Fields(a.tests) {
			if !there[name] {
				t.Errorf("%s: there is no %s", a.promise, name)
			}
		}
	}
}

func TestPathTraversalsAreRefused(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com/v1", `read: [{name: op, maps_to: "GET /files/{name}/raw", params: {name: {type: string, required: true}}}]`)
	all := capture(rt, `{}`)
	for value, want := range map[string]string{
		"a%20b/../../admin": "",
		"a/..":              "",
		`..\\a`:             "",
		"a%2f%2E%2e":        "",
		"a%5C..":            "",
		"":                  "",
		"a/..b":             "/files/a%2F..b/raw",
		"...":               "/files/.../raw",
		"x%20?q#f":          "/files/x%2520%3Fq%23f/raw",
		"..":                "",
		"%2e%2e":            "",
		"%2E.":              "",
		".":                 "",
	} {
		*all = nil
		got := ask(rt, Endpoint{}, `{"operation":"op","params":{"name":"`+value+`"}}`)
		switch {
		case want == "" && (len(*all) > 0 || !strings.Contains(got, `"code":"VALIDATION_INVALID_VALUE"`)):
			t.Errorf("%s: %s %+v", value, got, *all)
		case want != "" && (len(*all) != 1 || (*all)[0].url != "https://api.example.com/v1"+want):
			t.Errorf("%s: %s %+v", value, got, *all)
		}
	}
}
