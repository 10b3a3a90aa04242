package principal

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// jwt returns a token with these claims. Its signature is never verified.
func jwt(claims, signature string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return "Bearer " + b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(claims)) + "." + b64([]byte(signature))
}

const adaClaims = `{"iss":"https://a","sub":"ada"}`

func requestBy(guest, authorization string) *downstream.Request {
	return &downstream.Request{Guest: guest, Header: func(name string) string {
		return map[string]string{"Authorization": authorization}[name]
	}}
}

func userBy(guest, authorization, by string) string {
	req := requestBy(guest, authorization)
	return User(req, by, Of(req, by))
}

// TestTokensOfOneUser checks that two tokens with the same claims are of the same user,
// and still two principals.
func TestTokensOfOneUser(t *testing.T) {
	const by = "claim:iss+sub"
	one := jwt(adaClaims, "1")
	for name, other := range map[string]string{
		"another signature": jwt(adaClaims, "2"),
		"another order":     jwt(`{"sub":"ada","exp":7,"iss":"https://a"}`, "1"),
		"escapes":           jwt(`{"s\u0075b":"\u0061da","iss":"https:\/\/a"}`, "1"),
		"lower case":        "bearer " + strings.TrimPrefix(jwt(adaClaims, "2"), "Bearer "),
	} {
		if userBy("", one, by) != userBy("", other, by) {
			t.Errorf("%s: another user", name)
		}
		if Of(requestBy("", one), by) == Of(requestBy("", other), by) {
			t.Errorf("%s: the same principal", name)
		}
	}
}

// TestTokensWithoutAUser checks that a token that does not have each claim once and as a
// string is of no user, not even that of another such token.
func TestTokensWithoutAUser(t *testing.T) {
	long := jwt(fmt.Sprintf(`{"iss":"https://a","sub":"ada","x":"%s"}`, strings.Repeat("x", maxClaims)), "")
	if _, ok := readClaims(long); ok {
		t.Error("claims of any size are looked into")
	}
	for _, claims := range []string{
		`{"iss":"https://a"}`, `{"sub":"ada"}`, `{"iss":"https://a","sub":""}`, `{"iss":"https://a","sub":7}`, `{"iss":"https://a","sub":null}`,
		`{"iss":["https://a"],"sub":"ada"}`, `{"iss":"https://a","sub":"eve","sub":"ada"}`, `{"iss":"https://a","sub":"eve","s\u0075b":"ada"}`,
		`{"iss":"https://a","sub":{"sub":"ada"}}`, `[]`, `"ada"`, `null`, ``, `{`, `{"iss":"https://a","sub":"ada"} ` + `x`,
	} {
		one, two := jwt(claims, "1"), jwt(claims, "2")
		if a, b := userBy("", one, "claim:iss+sub"), userBy("", two, "claim:iss+sub"); a == b {
			t.Errorf("%s: two tokens are one user", claims)
		} else if a != userBy("", one, "claim:iss+sub") || a != Of(requestBy("", one), "claim:iss+sub") {
			t.Errorf("%s: not the token itself", claims)
		}
	}
	seen := map[string]string{}
	payload := strings.Split(jwt(adaClaims, "1"), ".")[1]
	for _, authorization := range []string{
		"", "Bearer", "Bearer ", "Bearer a", "Bearer a.b.c", "Basic " + payload, "Bearer ." + payload, "Bearer a." + payload, "Bearer a." + payload + ".c.d",
		"Bearer a." + payload + "=.c", "Bearer a." + payload + "\n.c", jwt(adaClaims, "1"),
	} {
		who := userBy("", authorization, "claim:iss+sub")
		if other, is := seen[who]; is {
			t.Errorf("%q and %q are one user", authorization, other)
		}
		seen[who] = authorization
	}
}

// TestDifferentUsersHaveDifferentPrincipals checks this for any claims and any token of the listener.
func TestDifferentUsersHaveDifferentPrincipals(t *testing.T) {
	type identity struct{ guest, iss, sub string }
	text := rapid.OneOf(rapid.StringMatching(`[a":,\\]{1,4}`), rapid.StringN(1, 6, -1))
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (identity, string) {
			id := identity{rapid.SampledFrom([]string{"", "g", "claims"}).Draw(t, name), text.Draw(t, name), text.Draw(t, name)}
			claims, err := json.Marshal(map[string]string{"iss": id.iss, "sub": id.sub})
			if err != nil {
				t.Fatal(err)
			}
			return id, userBy(id.guest, jwt(string(claims), rapid.String().Draw(t, name)), "claim:iss+sub")
		}
		a, userA := draw("a")
		b, userB := draw("b")
		if (a == b) != (userA == userB) {
			t.Fatalf("%q and %q: %q and %q", a, b, userA, userB)
		}
	})
}

// TestPrincipals checks that clients which differ in their header or in their token of
// the listener are different principals.
func TestPrincipals(t *testing.T) {
	seen := map[string]bool{}
	for _, guest := range []string{"", "a", "b"} {
		for _, authorization := range []string{"", "Bearer 1", "Bearer 2"} {
			who := Of(requestBy(guest, authorization), "authorization")
			if seen[who] {
				t.Errorf("%q with %q is another user as well", guest, authorization)
			}
			seen[who] = true
		}
	}
}
