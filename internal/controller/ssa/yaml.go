package ssa

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
)

// YAMLSafe is an apply configuration as JSON that is YAML, too: the API server reads what is applied as YAML, which refuses
// some characters where they are not escaped. encoding/json escapes fewer, and a name or routing key may hold any.
type YAMLSafe struct{ runtime.ApplyConfiguration }

// MarshalJSON escapes what YAML refuses.
func (s YAMLSafe) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(s.ApplyConfiguration)
	if err != nil {
		return nil, err
	}
	return escapeForYAML(text), nil
}

// escapeForYAML takes JSON, where such characters can only be in strings.
func escapeForYAML(text []byte) []byte {
	if !slices.ContainsFunc([]rune(string(text)), refusedByYAML) {
		return text
	}
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if refusedByYAML(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// refusedByYAML are the characters beyond ASCII controls, all in the first plane, that YAML calls not printable.
func refusedByYAML(r rune) bool {
	return r >= 0x7f && unicode.Is(unicode.Cc, r) || r == 0xfeff || r == 0xfffe || r == 0xffff
}
