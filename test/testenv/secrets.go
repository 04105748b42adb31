package testenv

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// Spellings returns the forms in which a password may be written. It skips short passwords, because other words contain them.
func Spellings(username, password string) []string {
	if len(password) < 8 {
		return nil
	}
	quoted, _ := json.Marshal(password) // a string can always be encoded
	return []string{
		password, url.QueryEscape(password), url.PathEscape(password), strings.Trim(string(quoted), `"`),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(password)), "="),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(username+":"+password)), "="), // basic authentication
	}
}
