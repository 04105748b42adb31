package eventfeed

import (
	"strconv"
	"strings"
)

// parseArguments reads the arguments of an object. An event contains them as a list of Erlang terms in text form, such as
// {<<"x-message-ttl">>,long,5000}. exact is false if a term cannot be read with certainty: Erlang prints binaries beyond ASCII in
// several ways, and nested values are not supported.
func parseArguments(header any) (arguments map[string]any, exact bool) {
	terms, ok := header.([]any)
	if !ok {
		return nil, header == nil
	}
	arguments = make(map[string]any, len(terms))
	for _, term := range terms {
		text, ok := term.(string)
		if !ok {
			return nil, false
		}
		name, value, ok := parseArgument(text)
		if !ok {
			return nil, false
		}
		arguments[name] = value
	}
	return arguments, true
}

// parseArgument reads {<<"name">>,type,value}.
func parseArgument(text string) (name string, value any, ok bool) {
	inner, opened := strings.CutPrefix(text, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	name, rest, named := binary(inner)
	kind, rest, typed := strings.Cut(afterComma(rest), ",")
	if !opened || !closed || !named || !typed {
		return "", nil, false
	}
	rest = strings.TrimSpace(rest)
	switch kind {
	case "longstr":
		value, rest, ok = binary(rest)
		ok = ok && rest == ""
	case "bool":
		value, ok = rest == "true", rest == "true" || rest == "false"
	case "byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint":
		number, err := strconv.ParseInt(rest, 10, 64)
		value, ok = number, err == nil
	}
	return name, value, ok
}

// binary reads <<"text">> and returns the rest after it. Erlang breaks long text into several literals: <<"one" "two">>.
func binary(text string) (value, rest string, ok bool) {
	if text == "<<>>" {
		return "", "", true
	}
	rest, ok = strings.CutPrefix(text, "<<")
	if !ok {
		return "", "", false
	}
	var parts strings.Builder
	for {
		literal, opened := strings.CutPrefix(strings.TrimSpace(rest), `"`)
		part, after, closed := strings.Cut(literal, `"`)
		if !opened || !closed || !isPlain(part) {
			return "", "", false
		}
		parts.WriteString(part)
		if end, ended := strings.CutPrefix(after, ">>"); ended {
			return parts.String(), end, true
		}
		rest = after
	}
}

// isPlain reports whether Erlang prints the text unchanged.
func isPlain(text string) bool {
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' || b == '\\' {
			return false
		}
	}
	return true
}

func afterComma(text string) string {
	after, found := strings.CutPrefix(text, ",")
	if !found {
		return ""
	}
	return strings.TrimSpace(after)
}
