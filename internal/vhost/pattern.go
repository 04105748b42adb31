package vhost

import (
	"regexp"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Match is whether a policy matches a queue.
type Match int

// Code that protects messages treats MatchUnknown as MatchYes.
const (
	MatchNo Match = iota
	// MatchUnknown: Warren cannot evaluate the pattern as the broker does, matching takes too long, or the patterns of the vhost are too
	// long together.
	MatchUnknown
	MatchYes
)

const (
	// matchTime limits a match that backtracks endlessly. regexp2 measures time in steps of 100 ms.
	matchTime = 100 * time.Millisecond
	// matchAttempts is how often a match that exceeds matchTime is tried: a busy machine may stop the manager during any match.
	matchAttempts = 3
	// slowPatterns is the number of slow patterns at which all patterns of a vhost are MatchUnknown, so that a vhost full of slow patterns
	// costs seconds instead of minutes.
	slowPatterns = 8
	// heavyTime is longer than a match of a real pattern takes. A pattern also counts as slow if more than 1 % of its matches, plus
	// heavyMatches, take longer.
	heavyTime    = 5 * time.Millisecond
	heavyMatches = 20
	// compiledBytes is how many bytes of patterns of one vhost are compiled. regexp2 needs up to 40 times as much memory.
	compiledBytes = 256 << 10
	// maxPatternBytes exceeds what brokers accept: 4.3 accepts 1,024 bytes, older versions at least 4,000.
	maxPatternBytes = 8192
)

// Pattern is the pattern of a policy. RabbitMQ matches it with Erlang's re, a PCRE on bytes. The zero value is the empty pattern,
// which matches every name.
type Pattern struct {
	text     string
	compiled *compiledPattern
	vhost    *Patterns
}

// compiledPattern is shared by all copies of a pattern, and compiled at the first match.
type compiledPattern struct {
	once       sync.Once
	isCompiled atomic.Bool
	expression *regexp2.Regexp // nil if Warren cannot evaluate the pattern
	// asciiOnly is true if the result for other names depends on the broker's release of Erlang.
	asciiOnly bool
	slow      atomic.Bool
	// heavy is one hundred times the number of heavy matches, less the number of all others.
	heavy atomic.Int64
}

// Patterns reads the patterns of one vhost.
type Patterns struct {
	slow   atomic.Int32 // number of slow patterns
	length atomic.Int64 // bytes of the patterns that take has counted
}

// take reserves memory for a compiled pattern. It returns false if the patterns of the vhost would exceed compiledBytes.
func (p *Patterns) take(text string) bool {
	return p.length.Add(int64(len(text))) <= compiledBytes
}

// Read returns the pattern with this text.
func (p *Patterns) Read(text string) Pattern {
	return Pattern{text: text, compiled: &compiledPattern{}, vhost: p}
}

// ReadPattern reads a pattern outside of any vhost.
func ReadPattern(text string) Pattern { return new(Patterns).Read(text) }

func (p Pattern) String() string { return p.text }

// Equal reports whether two patterns have the same text.
func (p Pattern) Equal(other Pattern) bool { return p.text == other.text }

// Match evaluates the pattern on a name.
func (p Pattern) Match(name string) Match {
	if p.text == "" {
		return MatchYes
	}
	c := p.compiled
	c.once.Do(func() { c.compile(p.text, p.vhost) })
	if c.expression == nil || c.asciiOnly && !isASCII(name) || c.slow.Load() || p.vhost.slow.Load() >= slowPatterns {
		return MatchUnknown
	}
	runes := bytesAsRunes(name)
	match, slow := c.evaluate(func() (bool, error) { return c.expression.MatchRunes(runes) })
	if slow && !c.slow.Swap(true) {
		p.vhost.slow.Add(1)
	}
	return match
}

// evaluate calls match, which returns an error if it exceeds matchTime, and reports whether the pattern is slow.
func (c *compiledPattern) evaluate(match func() (bool, error)) (result Match, slow bool) {
	for range matchAttempts {
		began := time.Now()
		matched, err := match()
		slow = c.count(time.Since(began))
		switch {
		case err != nil:
			continue
		case matched:
			return MatchYes, slow
		}
		return MatchNo, slow
	}
	return MatchUnknown, true
}

// count counts a match, and reports whether too many were heavy. A busy machine makes a few matches heavy.
func (c *compiledPattern) count(took time.Duration) (slow bool) {
	if took > heavyTime {
		return c.heavy.Add(100) > 100*heavyMatches
	}
	if c.heavy.Load() > 0 {
		c.heavy.Add(-1)
	}
	return false
}

// Reuse returns the pattern with what an older pattern with the same text has compiled and measured.
func (p Pattern) Reuse(old Pattern) Pattern {
	if p.text == "" || !old.compiled.isCompiled.Load() || !p.vhost.take(p.text) {
		return p
	}
	if old.compiled.slow.Load() {
		p.vhost.slow.Add(1)
	}
	p.compiled = old.compiled
	return p
}

func (c *compiledPattern) compile(text string, vhost *Patterns) {
	latin1 := string(bytesAsRunes(text))
	if len(text) > maxPatternBytes || !commonSyntax.MatchString(latin1) {
		return
	}
	if !vhost.take(text) {
		return
	}
	expression, err := regexp2.Compile(latin1)
	if err != nil {
		return
	}
	expression.MatchTimeout = matchTime
	c.expression, c.asciiOnly = expression, dependsOnLocale.MatchString(latin1)
	c.isCompiled.Store(true)
}

// bytesAsRunes converts each byte to a rune, because the broker matches bytes, and regexp2 matches runes.
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

// dependsOnLocale matches patterns that distinguish letters, spaces or cases. Up to Erlang 27, such a pattern treats the bytes from
// 128 on as Latin-1 characters; from Erlang 28 on it does not. An escaped backslash does not begin a class.
var dependsOnLocale = regexp.MustCompile(`(?s)^(?:[^\\]|\\.)*?(?:\\[wWsSbB]|\(\?[ms]*i)`)

// commonSyntax matches patterns that mean the same in PCRE and in regexp2, which follows .NET. Each has syntax that the other lacks: octal
// numbers, POSIX classes, subtracted classes, recursion, conditions, named groups.
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
