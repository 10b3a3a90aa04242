package file

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// AWS says how requests are signed for a service of Amazon Web Services:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
type AWS struct {
	Service, Region string
	ID, Secret      Credential
	Session         Credential // of temporary credentials; zero for none
}

// awsName is what the names of services and regions consist of.
var awsName = pattern.Later(`^[a-z0-9][a-z0-9-]{0,62}$`)

var awsBlock = block{"auth (type: aws-sig4)", "Requests are [signed](adapters.md#signatures-for-aws) when they are sent.", []key{
	{"service", "string", must, "The service, as ARNs name it: execute-api, dynamodb, s3."},
	{"region", "string", must, "The region, as in eu-central-1."},
	{"access_key_id_env", "variable", must, "The id of the access key."},
	{"access_key_id_file", "file", "", ""},
	{"secret_access_key_env", "variable", must, "The secret access key."},
	{"secret_access_key_file", "file", "", ""},
	{"session_token_env", "variable", "", "The session token of temporary credentials."},
	{"session_token_file", "file", "", ""},
}}

// aws reads the keys of auth for a signature.
func (c *checker) aws(n *node) *AWS {
	c.authKeys(n, "auth", &authBlock, &mtlsKey, &awsBlock)
	name := func(key, what, example string) string {
		word, v := c.need(n, "auth", key, what)
		if v != nil && !awsName().MatchString(word) {
			c.wrong(AuthConfigInvalid, "auth."+key, key+" is not a name of AWS", example, v, 0)
		}
		return word
	}
	a := &AWS{
		Service: name("service", "Service", "a name such as execute-api, dynamodb, s3"),
		Region:  name("region", "Region", "a name such as eu-central-1"),
		ID:      c.credential(n, "auth", "access_key_id_env", "access_key_id_file"),
		Secret:  c.credential(n, "auth", "secret_access_key_env", "secret_access_key_file"),
	}
	if n.get("session_token_env") != nil || n.get("session_token_file") != nil {
		a.Session = c.credential(n, "auth", "session_token_env", "session_token_file")
	}
	return a
}
