package deadletter

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// A match of a regular expression cannot be interrupted. Its time grows with the length of the text times the size of the pattern, and a
// short pattern with repetitions can be large.

// maxPatternParts limits the size of a pattern. Only patterns with repetitions such as a{9} can be larger, because an expression has at
// most maxExpressionBytes.
const maxPatternParts = 2 * maxExpressionBytes

// patternParts counts the characters, classes and operators of a pattern, repeated as often as the pattern says.
func patternParts(pattern *syntax.Regexp) int {
	switch pattern.Op {
	case syntax.OpLiteral:
		return len(pattern.Rune)
	case syntax.OpRepeat:
		return max(1, pattern.Min, pattern.Max) * patternParts(pattern.Sub[0])
	}
	parts := 1
	for _, sub := range pattern.Sub {
		parts += patternParts(sub)
	}
	return parts
}

// matchers make CEL call matcher for each pattern.
func (c charges) matchers() []*interpreter.RegexOptimization {
	matcher := interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: overloads.Matches, RegexIndex: 1, Factory: c.matcher}
	ofText := matcher
	ofText.OverloadID = overloads.MatchesString
	return []*interpreter.RegexOptimization{&matcher, &ofText}
}

// matcher compiles a pattern. The returned call does not match a text that costs more than an expression may, because CEL charges a call
// after it has ended.
func (c charges) matcher(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	parts := patternParts(parsed)
	if parts > maxPatternParts {
		return nil, fmt.Errorf("calls matches with a pattern of %d parts, at most %d are allowed. Use a* or a+ instead of a repetition "+
			"such as a{99}, which has 99 parts", parts, maxPatternParts)
	}
	c.patterns[pattern] = parts
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		text, isText := args[0].(types.String)
		switch {
		case !isText:
			return decls.MaybeNoSuchOverload(call.Function(), args...)
		case c.matchCost(text, args[1]) > maxExpressionCost:
			return types.NewErr("the text is too long for matches") // CEL charges the cost, and thereby ends the evaluation
		}
		return types.Bool(compiled.MatchString(string(text)))
	}), nil
}

// matchCost is the cost of a match, at CEL's rates for a byte of the text and for a part of the pattern.
func (c charges) matchCost(text, pattern ref.Val) uint64 {
	matched, _ := text.(types.String)
	literal, _ := pattern.(types.String)
	return (1 + uint64(len(matched))/10) * (1 + uint64(c.patterns[string(literal)])/4)
}
