package e2e

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// graphSteps use all operations of json-graphql-server, and cover how it refuses: with status 200 and errors in the
// answer.
var graphSteps = []step{
	{category: "read", request: `{"operation":"get_post","params":{"id":1}}`, want: `{"success":true,"data":{"id":"1","title":"one","author":"ada","User":{"id":"1","name":"Ann"}}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":1,"fields":["title","User.name"]}}`, want: `{"success":true,"data":{"title":"one","User":{"name":"Ann"}}}`},
	{category: "create", request: `{"operation":"create_post","params":{"title":"café \u2028 \"\\ 😀","author":"eve","user_id":1}}`, want: `{"success":true,"data":{"id":"4","title":"café … \"\\ 😀","author":"eve","User":{"name":"Ann"}}}`},
	{category: "update", request: `{"operation":"update_post","params":{"id":4,"title":"four"}}`, want: `{"success":true,"data":{"id":"4","title":"four","author":"eve"}}`},
	{category: "read", request: `{"operation":"list_posts","params":{"filter":{"title":"four"}}}`, want: `{"success":true,"data":[{"id":"4","title":"four"}]}`},

	{category: "read", request: `{"operation":"list_posts","params":{"first":3}}`, want: `{"success":true,"data":{"items":[{"id":"1",…},{"id":"2",…},{"id":"3",…}],"pageInfo":{"hasNextPage":true,"hasPreviousPage":false,"startCursor":null,"endCursor":"…"}}}`, capture: [2]string{"page", "data.pageInfo.endCursor"}},
	{category: "read", request: `{"operation":"list_posts","params":{"first":3,"after":"<page>"}}`, want: `{"success":true,"data":{"items":[{"id":"4","title":"four"}],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true,"startCursor":"…","endCursor":null}}}`},

	{category: "delete", request: `{"operation":"delete_post","params":{"id":3}}`, want: `{"success":false,"error":{"code":"CONFIRMATION_REQUIRED",…},"confirmation":{…}}`, capture: [2]string{"token", "confirmation.token"}},
	{category: "delete", request: `{"operation":"delete_post","params":{"id":3,"_confirmation":"<token>"}}`, want: `{"success":true,"data":{"id":"3"}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":3}}`, want: `{"success":true,"data":null}`},
	{category: "read", request: `{"operation":"get_elsewhere"}`, want: `{"success":true,"data":3}`},

	{category: "read", request: `{"operation":"get_nothing"}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE","message":"Invalid request: Cannot query field \"nothing\" on type \"Post\".",…"http_status":200…}}`},
	{category: "read", request: `{"operation":"list_posts","params":{"filter":{"colour":"red"}}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE","message":"Invalid request: Variable \"$filter\" got invalid value…colour…}}`},
	{category: "update", request: `{"operation":"update_post","params":{"id":99,"title":"x"}}`, want: `{"success":true,"data":null}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":"1"}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'id' expected 'integer', got 'string'",…}}`},
	{category: "create", request: `{"operation":"create_post","params":{"title":"x"}}`, want: `{"success":false,"error":{"code":"VALIDATION_MISSING_PARAM",…"missing":["author","user_id"]…}}`},
}

// TestJSONGraphQLServer calls a published GraphQL API with the adapter runtime alone.
func TestJSONGraphQLServer(t *testing.T) {
	testset.Need(t, testset.Peers)
	const data = `{"posts":[{"id":1,"title":"one","author":"ada","user_id":1},{"id":2,"title":"two","author":"bob","user_id":1},{"id":3,"title":"three","author":"ada","user_id":1}],` +
		`"users":[{"id":1,"name":"Ann"}]}`
	base := publishedAPI(t, "json-graphql-server/bin/json-graphql-server.cjs", data)
	rt := runtimeOf(t, adapterOf(t, "json-graphql-server-adapter.md", base), adapterrt.Options{})
	walk(t, graphSteps, func(_ *testing.T, category, request string) string {
		return string(dispatch(rt, category, request).JSON())
	})
}
