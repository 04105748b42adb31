package vhost

import (
	"regexp"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Match says whether a policy matches a queue.
type Match int

// Whoever protects messages treats MatchUnknown like MatchYes.
const (
	MatchNo Match = iota
	// MatchUnknown: Warren cannot read the pattern as the broker does, or matching takes too long.
	MatchUnknown
	MatchYes
)

const (
	// matchTime ends a match that backtracks without end. The library measures time in steps of 100 ms.
	matchTime = 100 * time.Millisecond
	// slowPatterns is how many patterns of one vhost may run into matchTime. After them no pattern of the vhost is tried any
	// more, so that a vhost full of such patterns costs seconds and not minutes.
	slowPatterns = 8
	// patternLength is more than brokers accept: 4.3 takes 1,024 bytes, older versions at least 4,000.
	patternLength = 8192
)

// Pattern is the pattern of a policy. RabbitMQ matches it with Erlang's re: a PCRE that works on bytes. The zero value is
// the empty pattern, which matches every name.
type Pattern struct {
	text     string
	compiled *compiledPattern
}

// compiledPattern is shared by all copies of a pattern, and compiled when a name is first matched.
type compiledPattern struct {
	once       sync.Once
	expression *regexp2.Regexp // nil if the pattern cannot be read
	// asciiOnly: whether the pattern matches other names depends on the broker's release of Erlang.
	asciiOnly bool
	slow      atomic.Bool
	vhost     *Patterns
}

// Patterns reads the patterns of one vhost.
type Patterns struct{ slow atomic.Int32 }

// Read returns the pattern with this text.
func (p *Patterns) Read(text string) Pattern {
	return Pattern{text: text, compiled: &compiledPattern{vhost: p}}
}

// ReadPattern reads a single pattern.
func ReadPattern(text string) Pattern { return new(Patterns).Read(text) }

func (p Pattern) String() string { return p.text }

// Equal says whether two patterns have the same text.
func (p Pattern) Equal(other Pattern) bool { return p.text == other.text }

// Match says whether the pattern matches a name.
func (p Pattern) Match(name string) Match {
	if p.text == "" {
		return MatchYes
	}
	c := p.compiled
	c.once.Do(func() { c.compile(p.text) })
	if c.expression == nil || c.asciiOnly && !isASCII(name) || c.slow.Load() || c.vhost.slow.Load() >= slowPatterns {
		return MatchUnknown
	}
	matched, err := c.expression.MatchRunes(bytesAsRunes(name))
	switch {
	case err != nil:
		if !c.slow.Swap(true) {
			c.vhost.slow.Add(1)
		}
		return MatchUnknown
	case matched:
		return MatchYes
	}
	return MatchNo
}

func (c *compiledPattern) compile(text string) {
	latin1 := string(bytesAsRunes(text))
	if len(text) > patternLength || !commonSyntax.MatchString(latin1) {
		return
	}
	expression, err := regexp2.Compile(latin1)
	if err != nil {
		return
	}
	expression.MatchTimeout = matchTime
	c.expression, c.asciiOnly = expression, dependsOnLocale.MatchString(latin1)
}

// bytesAsRunes makes a rune of each byte: the broker matches bytes, the library matches runes.
func bytesAsRunes(text string) []rune {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return runes
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// dependsOnLocale matches the patterns that tell letters, spaces or cases apart. Up to Erlang 27 the bytes from 128 on are
// Latin 1 characters to such a pattern; from 28 on they are none. An escaped backslash begins no class.
var dependsOnLocale = regexp.MustCompile(`(?s)^(?:[^\\]|\\.)*?(?:\\[wWsSbB]|\(\?[ms]*i)`)

// commonSyntax matches the patterns that mean the same to PCRE and to the library, which follows .NET. Each of the two has
// more: octal numbers, POSIX classes, subtracted classes, recursion, conditions, names.
var commonSyntax = func() *regexp.Regexp {
	const (
		literal  = `[^\\\[\](){}*+?|^$]`
		escaped  = `\\[^0-9A-Za-z\x80-\xff]|\\[dDsSwWtnrfae]`
		class    = `\[\^?\]?(?:[^\\\[\]]|` + escaped + `)*\]`
		times    = `(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[?+]?`
		repeated = `(?:` + literal + `|` + escaped + `|` + class + `|\))(?:` + times + `)?`
		single   = `[|^$]|\\[AzZbBG]`
		group    = `\((?:\?(?:[:=!>]|<[=!]|[ims]+(?:-[ims]+)?[:)]))?`
	)
	return regexp.MustCompile(`(?s)^(?:` + repeated + `|` + single + `|` + group + `)*$`)
}()
