package secret

import (
	"strings"
	"sync"
)

// Class says what the name of a value tells of it.
type Class uint8

// The classes.
const (
	Plain  Class = iota
	Hidden       // the value is a secret
	Handle       // the value grants access to something of the protocol, such as a session
)

// words are the words that make a name that of a secret, without case, dashes, underscores, dots and blanks.
var words = [...]string{
	"token", "secret", "passw", "passphrase", "credential", "authorization", "cookie",
	"apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "connectionstring",
}

// wholes are names of secrets whose words alone say less, in the same form.
var wholes = map[string]bool{"pwd": true, "pass": true, "dsn": true, "otp": true}

// handles are the names of values that grant access, in the same form.
var handles = map[string]bool{
	"requeststate": true, "mcpsessionid": true, "sessionid": true, "taskid": true,
	"cursor": true, "nextcursor": true, "endcursor": true, "pagetoken": true, "nextpagetoken": true,
	"confirmation": true, "confirmationtoken": true,
}

// harmless have a word for a secret in them and are no names of secrets.
var harmless = map[string]bool{"progresstoken": true, "tokentype": true, "tokenizer": true}

// ClassOf returns the class of the value that has this name: of a member, a parameter, a header or a variable. It is the one
// list of such names, for what adapters pass on, for recordings, traces and logs.
func ClassOf(name, value string) Class {
	var buf [64]byte
	n := string(appendFolded(buf[:0], name))
	switch {
	case handles[n]:
		return Handle
	case harmless[n], name == "PWD": // the variable of a shell
		return Plain
	case wholes[n]:
		return Hidden
	}
	for _, word := range words {
		if strings.Contains(n, word) {
			if word == "token" && strings.Contains(n, "tokens") && isCount(value) {
				continue // a number of tokens
			}
			return Hidden
		}
	}
	return Plain
}

// Named reports whether a value with this name is a secret.
func Named(name string) bool { return ClassOf(name, "") == Hidden }

// appendFolded appends a name without case, dashes, underscores, dots and blanks.
func appendFolded(b []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '-' || c == '_' || c == '.' || c == ' ':
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		default:
			b = append(b, c)
		}
	}
	return b
}

// isChosen reports whether people choose the values of this name, which may then be a word.
func isChosen(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "pass") || strings.Contains(name, "pwd") || strings.Contains(name, "secret")
}

// isCount reports whether a value is a number of things.
func isCount(value string) bool {
	for i := 0; i < len(value); i++ {
		if c := value[i]; (c < '0' || c > '9') && c != ',' && c != '.' {
			return false
		}
	}
	return value != "" && len(value) <= 12
}

// Beside is what the members of one object say of the values beside them, as in {"name": "token", "value": "…"} and in
// {"loc": ["body", "password"], "input": "…"}.
type Beside struct{ named, located Class }

// Note takes a member that may say what another one is: its text, or each text of its list.
func (b *Beside) Note(member, text string) {
	switch member {
	case "name", "key", "header":
		b.named = max(b.named, ClassOf(text, ""))
	case "field", "param", "parameter", "property", "attribute", "argument", "path", "pointer", "loc", "location":
		b.located = max(b.located, ClassOf(text, ""))
	}
}

// Of returns the class of a member by what stands beside it.
func (b *Beside) Of(member string) Class {
	switch member {
	case "value", "rejectedValue", "rejected_value", "attemptedValue":
		return max(b.named, b.located)
	case "input", "received", "actual", "given", "provided":
		return b.located
	}
	return Plain
}

// The words of sentences about what is wrong with a value: those that say it alone, those that say it with others, and the rest.
const (
	alone = `absent unset required missing invalid incorrect wrong bad empty blank null undefined none expired revoked denied refused rejected
unknown unauthorized forbidden unsupported disabled inactive malformed mismatch mismatched`
	saying = `is are was were be been has have had must should shall can cannot can't could may might not no already too need needs
needed does do did doesn't don't isn't aren't wasn't match matches contain contains include includes please use try enter check`
	other = `a an the this that these and or but if of in on at to by with without from for than as it its it's your only one two each
any all again valid found exist exists present provided supplied given set sent specified allowed accepted permitted supported
matching short long weak strong small large common simple least most minimum maximum min max between exactly more less fewer
longer shorter equal different same character characters char chars letter letters digit digits number numbers numeric symbol
symbols uppercase lowercase upper lower case special string integer boolean array object type format value values field parameter
property argument input length size bytes used reused password passwords token tokens secret key keys api authentication
authorization credential credentials header cookie user username name`
)

// vocabulary has the weight of each of these words.
var vocabulary = sync.OnceValue(func() map[string]int {
	all := map[string]int{}
	for weight, words := range [...]string{other, saying, alone} {
		for _, w := range strings.Fields(words) {
			all[w] = weight
		}
	}
	return all
})

// longestAdvice is the length in bytes above which a text is not advice.
const longestAdvice = 200

// IsAdvice reports whether a value is no secret but says what is wrong with one, such as "is too short (minimum is 8
// characters)": it has only words that such sentences are made of, and small numbers.
func IsAdvice(value string) bool {
	if len(value) > longestAdvice {
		return false
	}
	count, most := 0, 0
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '\'' && r != '_' && r < 0x80
	}) {
		word = strings.Trim(word, "'")
		if word == "" {
			continue
		}
		if len(word) <= 3 && strings.Trim(word, "0123456789") == "" {
			continue
		}
		weight, known := vocabulary()[strings.ToLower(word)]
		if !known {
			return false
		}
		count, most = count+1, max(most, weight)
	}
	return most == 2 || most == 1 && count > 1
}
