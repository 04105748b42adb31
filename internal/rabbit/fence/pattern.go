package fence

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// patternLimit is the longest pattern of a policy that RabbitMQ 4.3 accepts, in bytes. Older versions take more.
const patternLimit = 1024

// Patterns splits queues into as few groups as fit into one pattern each, in their order.
func Patterns(queues []string) (groups [][]string) {
	for _, queue := range queues {
		last := len(groups) - 1
		if last >= 0 && len(Pattern(append(slices.Clone(groups[last]), queue))) <= patternLimit {
			groups[last] = append(groups[last], queue)
		} else {
			groups = append(groups, []string{queue})
		}
	}
	return groups
}

// Pattern matches exactly the queues of these names: \Aprefix(?:rest|rest)\z. The broker's patterns are PCRE: a
// backslash before anything but a letter or digit makes it literal, and other bytes stand for themselves.
func Pattern(queues []string) string {
	prefix := commonPrefix(queues)
	rests := make([]string, 0, len(queues))
	for _, queue := range queues {
		rests = append(rests, literally(queue[len(prefix):]))
	}
	return `\A` + literally(prefix) + `(?:` + strings.Join(rests, "|") + `)\z`
}

// commonPrefix does not end within a character: JSON, in which policies are written, has no half ones.
func commonPrefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			_, size := utf8.DecodeLastRuneInString(prefix)
			prefix = prefix[:len(prefix)-size]
		}
	}
	return prefix
}

func literally(text string) string {
	var escaped strings.Builder
	for _, b := range []byte(text) {
		if b < utf8.RuneSelf && !plainInPattern(b) {
			escaped.WriteByte('\\')
		}
		escaped.WriteByte(b)
	}
	return escaped.String()
}

func plainInPattern(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
}

// QueuesOf are the queues that a pattern of Pattern matches; nil if it is no such pattern. A fence of an earlier
// Warren has no prefix.
func QueuesOf(pattern string) []string {
	inner, begins := strings.CutPrefix(pattern, `\A`)
	inner, ends := strings.CutSuffix(inner, `)\z`)
	if !begins || !ends {
		return nil
	}
	prefix, rest := unescape(inner, "(")
	rest, grouped := strings.CutPrefix(rest, "(?:")
	if !grouped {
		return nil
	}
	var queues []string
	for {
		var ending string
		ending, rest = unescape(rest, "|")
		queues = append(queues, prefix+ending)
		if rest == "" {
			return queues
		}
		rest = rest[1:]
	}
}

// unescape reads a literal text up to the first of these bytes that stands for itself.
func unescape(pattern, until string) (text, rest string) {
	var literal strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.IndexByte(until, pattern[i]) >= 0:
			return literal.String(), pattern[i:]
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
		}
		literal.WriteByte(pattern[i])
	}
	return literal.String(), ""
}
