package oauth

// serverMetadata is the metadata of an authorization server:
// https://www.rfc-editor.org/rfc/rfc8414#section-2.
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint,omitempty"`
	Revocation    string   `json:"revocation_endpoint,omitempty"`
	Device        string   `json:"device_authorization_endpoint,omitempty"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	PKCE          []string `json:"code_challenge_methods_supported,omitempty"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	Document      bool     `json:"client_id_metadata_document_supported,omitempty"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
}

// authority is the authorization server of an MCP server, and what a sign-in requests from it.
type authority struct {
	serverMetadata
	resource string   // sent with every request for a token; "" for none
	scopes   []string // to ask for
	named    string   // the resource in the server's metadata
	guessed  bool     // no metadata was found: the endpoints are the default ones
	older    bool     // the server has no metadata of a protected resource: the rules of 2025-03-26
}

// challenge is what a 401 or 403 says.
type challenge struct {
	metadata, scope, err, description string
	bearer                            bool
}
