package apiaccess

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// BearerToken returns the token in an Authorization header, if there is one.
func BearerToken(header string) (token string, given bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(header), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// claims reports whether a token is a JSON Web Token that claims an audience. Only the API server can verify the claim.
func claims(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	claimed := struct {
		Audience any `json:"aud"` // a text, or a list of texts
	}{}
	if err := json.Unmarshal(payload, &claimed); err != nil {
		return false
	}
	list, isList := claimed.Audience.([]any)
	return claimed.Audience == any(audience) || isList && slices.Contains(list, any(audience))
}
