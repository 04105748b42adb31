package fence

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// patternLimit is the longest pattern of a policy that RabbitMQ 4.3 accepts, in bytes. Older versions take more.
const patternLimit = 1024

// maxQueues limits what QueuesOf returns. Warren deletes fewer queues behind one fence.
const maxQueues = 512

// Patterns splits queues into groups that fit into one pattern each, in their order. It fills each group before it begins the next.
func Patterns(queues []string) (groups [][]string) {
	if len(queues) > 0 && len(Pattern(queues)) <= patternLimit { // the pattern of some of them may be longer
		return [][]string{queues}
	}
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

// Pattern returns a pattern that matches exactly these queues: \Aprefix(?:rest|rest)\z, or \Aprefix(?:stem|stem)(?:ending|ending)\z if each
// stem occurs with each ending, as for main queues with the same tiers. A short pattern is better, because each write of a policy makes
// RabbitMQ compile all patterns for each queue of the vhost. The broker's patterns are PCRE: a backslash makes any character literal except
// letters and digits, and bytes above ASCII stand for themselves.
func Pattern(queues []string) string {
	prefix := commonPrefix(queues)
	rests := make([]string, 0, len(queues))
	for _, queue := range queues {
		rests = append(rests, queue[len(prefix):])
	}
	pattern := `\A` + literally(prefix)
	if stems, endings := factorsOf(rests); len(stems) > 0 {
		return pattern + anyOf(stems) + anyOf(endings) + `\z`
	}
	return pattern + anyOf(rests) + `\z`
}

func anyOf(texts []string) string {
	literal := make([]string, len(texts))
	for i, text := range texts {
		literal[i] = literally(text)
	}
	return `(?:` + strings.Join(literal, "|") + `)`
}

// maxEndings is the maximum number of queues of one ConsumerQueue that are deleted together: a main queue and its tiers.
const maxEndings = 17

// factorsOf finds stems and endings whose combinations, ordered by stem, are the given names. It returns none if the names have no such
// form.
func factorsOf(texts []string) (stems, endings []string) {
	for size := 1; size <= min(maxEndings, len(texts)/2); size++ {
		if len(texts)%size != 0 {
			continue
		}
		if stems, endings = factorsOfSize(texts, size); len(stems) > 0 {
			return stems, endings
		}
	}
	return nil, nil
}

// factorsOfSize is factorsOf for a number of endings.
func factorsOfSize(texts []string, size int) (stems, endings []string) {
	ending := ""
	if size == 1 {
		if ending = commonSuffix(texts); ending == "" {
			return nil, nil
		}
	}
	for together := range slices.Chunk(texts, size) {
		stem := commonPrefix(together)
		if size == 1 {
			stem = strings.TrimSuffix(together[0], ending)
		}
		rests := make([]string, size)
		for i, text := range together {
			rests[i] = text[len(stem):]
		}
		if len(stems) > 0 && !slices.Equal(rests, endings) {
			return nil, nil
		}
		stems, endings = append(stems, stem), rests
	}
	return stems, endings
}

// commonSuffix never begins within a character; see commonPrefix.
func commonSuffix(texts []string) string {
	suffix := texts[0]
	for _, text := range texts {
		for !strings.HasSuffix(text, suffix) {
			_, size := utf8.DecodeRuneInString(suffix)
			suffix = suffix[size:]
		}
	}
	return suffix
}

// commonPrefix never ends within a character, because policies are sent as JSON, which cannot contain a part of a character.
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

// QueuesOf returns the queues that a pattern matches; nil if Warren did not make the pattern. A short pattern of a hostile broker can
// have very many combinations.
func QueuesOf(pattern string) []string {
	if len(pattern) > patternLimit {
		return nil
	}
	inner, begins := strings.CutPrefix(pattern, `\A`)
	inner, ends := strings.CutSuffix(inner, `\z`)
	if !begins || !ends {
		return nil
	}
	prefix, rest := unescape(inner, "(")
	stems, rest, grouped := alternatives(rest)
	if !grouped {
		return nil
	}
	endings := []string{""}
	if rest != "" {
		if endings, rest, grouped = alternatives(rest); !grouped || rest != "" {
			return nil
		}
	}
	if len(stems)*len(endings) > maxQueues {
		return nil
	}
	queues := make([]string, 0, len(stems)*len(endings))
	for _, stem := range stems {
		for _, ending := range endings {
			queues = append(queues, prefix+stem+ending)
		}
	}
	return queues
}

// alternatives reads (?:text|text) and returns the rest; false if the pattern does not begin with that form.
func alternatives(pattern string) (texts []string, rest string, ok bool) {
	rest, begins := strings.CutPrefix(pattern, "(?:")
	for begins {
		var text string
		text, rest = unescape(rest, "|)")
		texts = append(texts, text)
		switch {
		case rest == "":
			return nil, "", false
		case rest[0] == ')':
			return texts, rest[1:], true
		}
		rest = rest[1:]
	}
	return nil, pattern, false
}

// unescape reads a literal text up to the first byte of until that is not escaped.
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
