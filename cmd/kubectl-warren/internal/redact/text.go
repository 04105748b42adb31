package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// redacted replaces texts that are not published.
const redacted = "[redacted]"

const secretName = `passw|pwd|token|secret|authorization|credential|cookie|(?:api|access|private)[-_.]?key|signature`

var (
	// secretKey matches the names of fields that may contain a password.
	secretKey = regexp.MustCompile(`(?i)` + secretName)
	// personKey matches the names of fields of a log line that name a person.
	personKey = regexp.MustCompile(`^(?:user|requestedBy)$`)

	// rules apply to a text in this order.
	rules = []struct {
		pattern     *regexp.Regexp
		replacement string
	}{
		// User and password of a URI. A password may contain any character, so this takes everything before the last @ of the word.
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)\S*@`), `$1` + redacted + `@`},
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), redacted},
		{regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`), redacted}, // a JSON Web Token
		{regexp.MustCompile(`(?i)\b(basic|bearer)\s+[\w+/=.~-]{4,}`), `$1 ` + redacted},
		// A name that may belong to a password, with its value.
		{
			regexp.MustCompile(`(?i)([\w.-]*(?:` + secretName + `)[\w.-]*["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;"'}&]+)`),
			`$1` + redacted,
		},
		// Users of the API server, whom the API server and the dead-letter API name in a refusal. Users of RabbitMQ stay.
		{regexp.MustCompile(`\b(User |users |SubjectAccessReview for user )"(?:[^"\\]|\\.)*"`), `$1"` + redacted + `"`},
		{regexp.MustCompile(`\buser "(?:[^"\\]|\\.)*" cannot `), `user "` + redacted + `" cannot `},
		// The manager quotes a selector's expression, or a key in it, behind these words. An expression may contain values of payloads.
		{regexp.MustCompile(`(?s)(spec\.selector\.[a-z]+: |expression: |no such key: ).*`), `$1` + redacted},
	}
)

// Text returns a text without passwords, users of the API server and expressions of selectors.
func Text(text string) string {
	for _, rule := range rules {
		text = rule.pattern.ReplaceAllString(text, rule.replacement)
	}
	return text
}

// YAML returns a value as YAML. Its texts are redacted as by Text.
func YAML(value any) ([]byte, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := utiljson.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	return yaml.Marshal(redactValue(fields))
}

// redactValue applies Text to each string in a JSON value, and redacts fields whose names may belong to passwords.
func redactValue(value any) any {
	switch value := value.(type) {
	case string:
		return Text(value)
	case []any:
		for i := range value {
			value[i] = redactValue(value[i])
		}
	case map[string]any:
		for name, field := range value {
			if secretKey.MatchString(name) && !isNested(field) {
				value[name] = redacted
				continue
			}
			value[name] = redactValue(field)
		}
	}
	return value
}

// isNested reports whether a value has fields or items, such as the reference in secretRef.
func isNested(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// Log returns the lines of a manager's log without passwords, expressions of selectors, names of users and their reasons for jobs.
func Log(log []byte) []byte {
	var lines bytes.Buffer
	for line := range strings.Lines(string(log)) {
		lines.WriteString(logLine(strings.TrimSuffix(line, "\n")))
		lines.WriteByte('\n')
	}
	return lines.Bytes()
}

// logLine redacts a line: an object of JSON, or a text that may end with one.
func logLine(line string) string {
	start := strings.IndexByte(line, '{')
	fields := map[string]any{}
	if start < 0 || json.Unmarshal([]byte(line[start:]), &fields) != nil {
		return Text(line)
	}
	_, isAboutJob := fields["requestedBy"]
	for name := range fields {
		if personKey.MatchString(name) || isAboutJob && name == "reason" { // the reason that the user gave for a Redrive or a Purge
			fields[name] = redacted
		}
	}
	var object bytes.Buffer
	encoder := json.NewEncoder(&object)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(redactValue(fields)); err != nil {
		return redacted // a decoded object can always be encoded
	}
	return Text(line[:start]) + strings.TrimSuffix(object.String(), "\n")
}
