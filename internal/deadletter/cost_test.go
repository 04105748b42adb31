package deadletter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// An expression pays for each byte of a string that a function reads.
func TestFunctionsThatReadTexts(t *testing.T) {
	body := `{"l": [0` + strings.Repeat(", 0", 19) + `], "t": "` + strings.Repeat("0", maxText) + `"}`
	for _, call := range []string{
		`size(body.t) > 0`, `body.t.contains("")`, `body.t.contains("1")`, `body.t.matches("1")`, `int(body.t) == 0`, `uint(body.t) == 0u`,
		`double(body.t) == 0.0`, `bool(body.t)`, `bytes(body.t) == b""`, `string(body.t) == ""`, `duration(body.t) == age`,
		`timestamp(body.t) == timestamp(0)`, `body.t.charAt(0) == ""`, `body.t.substring(1) == ""`, `body.t.trim() == ""`,
		`body.t.lowerAscii() == ""`, `body.t.upperAscii() == ""`, `body.t.reverse() == ""`, `body.t + "" == ""`, `body.t == body.t + ""`,
		`body.t < body.t + ""`, `body.t in headers`, `body.t in [body.t]`, `"".startsWith(body.t)`, `"".endsWith(body.t)`,
	} {
		t.Run(call, func(t *testing.T) {
			compiled, err := compileExpression(`body.l.all(x, ` + call + ` || true)`)
			if err != nil {
				t.Fatal(err)
			}
			err = checkCost(t, compiled, orders.Read(&amqp.Delivery{Body: []byte(body)}))
			topologytest.Equal(t, "error", "operation cancelled: actual cost limit exceeded", fmt.Sprint(err))
		})
	}
}

// A string that is longer than maxText can be compared, and no function reads it.
func TestLongTexts(t *testing.T) {
	deadLetter := orders.Read(&amqp.Delivery{Body: []byte(`{"t": "` + strings.Repeat("a", 1<<19) + `", "l": [0]}`)})
	for expression, want := range map[string]struct {
		skipped SkipReason
		failure string
	}{
		`body.t == "a"`:                   {skipped: NotSelected},
		`"a" != body.t`:                   {},
		`body.t != ""`:                    {},
		`has(body.t) && body.l[0] == 0`:   {},
		`body == {"t": "a", "l": [0]}`:    {skipped: NotSelected},
		`body.t in ["a"]`:                 {skipped: NotSelected},
		`body.t in body`:                  {skipped: NotSelected},
		`body.t == body.t`:                {NotEvaluated, "operation cancelled: actual cost limit exceeded"},
		`body.t`:                          {NotEvaluated, "the result is of type text of more than 100000 bytes and must be true or false"},
		`body.t.lowerAscii() == "a"`:      {NotEvaluated, "no such overload: lowerAscii(text of more than 100000 bytes)"},
		`body.t.matches("(?:a?){1000}b")`: {NotEvaluated, "no such overload: matches(text of more than 100000 bytes, string)"},
		`body.t.startsWith("a")`:          {NotEvaluated, "no such overload"},
	} {
		t.Run(expression, func(t *testing.T) {
			compiled, err := compileExpression(expression)
			if err != nil {
				t.Fatal(err)
			}
			_ = checkCost(t, compiled, deadLetter)
			topologytest.Equal(t, "skipped", want.skipped, compiled.skips(deadLetter, at))
			failure := ""
			if stored := compiled.failure.Load(); stored != nil {
				failure = *stored
			}
			topologytest.Equal(t, "failure", want.failure, failure)
		})
	}
}

// A pattern is not matched if the match costs more than an expression may: a match cannot be interrupted.
func TestPatternOnALongText(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text, pattern string
		want          ref.Val
	}{
		"a short text":                      {"order.placed", `^order\.`, types.True},
		"a long text, and a short pattern":  {strings.Repeat("a", maxText-10), "b", types.False},
		"a short text, and a large pattern": {"b", "(?:a?){1000}b", types.True},
		"a long text, and a large pattern":  {strings.Repeat("a", 1000), "(?:a?){1000}b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			costs := charges{patterns: map[string]int{}}
			args := []interpreter.InterpretableV2{
				interpreter.NewConstValue(1, types.String(test.text)), interpreter.NewConstValue(2, types.String(test.pattern)),
			}
			call, err := costs.matcher(interpreter.NewCall(3, overloads.Matches, overloads.MatchesString, args, nil), test.pattern)
			if err != nil {
				t.Fatal(err)
			}
			matched := call.Eval(interpreter.EmptyActivation())
			if test.want != nil {
				topologytest.Equal(t, "result", test.want, matched)
				return
			}
			topologytest.Equal(t, "error", "the text is too long for matches", fmt.Sprint(matched))
			cost := *costs.CallCost(overloads.Matches, "", []ref.Val{types.String(test.text), types.String(test.pattern)}, nil)
			topologytest.Equal(t, "ends the evaluation", true, cost > maxExpressionCost)
		})
	}
}

// Lists and maps refer to their elements, so they can be much larger than the message. A comparison of two large values does not begin.
func TestComparisonsOfLargeValues(t *testing.T) {
	body := `{"few": [1000` + strings.Repeat(", 1000", 199) + `], "l": [1000` + strings.Repeat(", 1000", maxBodyValues/2) + `]}`
	deadLetter := orders.Read(&amqp.Delivery{Body: []byte(body)})
	many := func(separator, part string) string { return part + strings.Repeat(separator+part, 199) }
	entries := ""
	for i := range 40 {
		entries += fmt.Sprintf(`"%d": body.l, `, i)
	}
	sums := func(comparison string) string { // x is a sum of 900 lists
		sum := "x" + strings.Repeat("+x", 29)
		return `[body.l].exists(x, {` + sum + `: 0}.exists(x, {` + sum + `: 0}.exists(x, ` + comparison + `)))`
	}
	doubled := func(comparison string) string { // x is a list of lists, in which each level doubles the size
		const levels = 40
		return `[body.few].exists(x, ` + strings.Repeat(`{[x, x]: 0}.exists(x, `, levels) + comparison + strings.Repeat(`)`, levels+1)
	}
	for name, expression := range map[string]string{
		"many sums":            `[body.l].exists(x, (` + many("+", "x") + `) == (` + many("+", "x") + `))`,
		"a part of many sums":  `[body.l].exists(x, 1 in ` + many("+", "x") + `)`,
		"a loop over sums":     `body.few.exists(x, size(body.l + body.l) == x)`,
		"equal sums":           sums(`x + x == x + x`),
		"unequal sums":         sums(`x + x != x + x`),
		"a part of a sum":      sums(`1 in x + x`),
		"equal lists by map":   `body.few.map(x, body.l) == body.few.map(x, body.l)`,
		"unequal lists by map": `body.few.map(x, body.l) != body.few.map(x, body.l)`,
		"equal lists of lists": `[body.l].exists(x, [` + many(", ", "x") + `] == [` + many(", ", "x") + `])`,
		"equal lists of maps":  `{{` + entries + `}: 0}.exists(x, [` + many(", ", "x") + `] == [` + many(", ", "x") + `])`,
		"equal keys":           doubled(`x == x`),
		"unequal keys":         doubled(`x != x`),
		"a key in a list":      doubled(`x in [x]`),
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := compileExpression(expression)
			if err != nil {
				t.Fatal(err)
			}
			err = checkCost(t, compiled, deadLetter)
			topologytest.Equal(t, "error", "operation cancelled: actual cost limit exceeded", fmt.Sprint(err))
		})
	}
}

// The comparisons of this package give the same results as those of CEL.
func TestComparisons(t *testing.T) {
	t.Parallel()
	body := `{"l": [1, "a", null], "m": {"a": 1.5}, "n": 2, "t": "a", "many": [1` + strings.Repeat(", 1", 199) + `]}`
	deadLetter := orders.Read(&amqp.Delivery{Body: []byte(body)})
	for expression, want := range map[string]SkipReason{
		`body.n == 2.0 && body.n == 2u`:                                  "",
		`body.n != 2.5 && body.n != "2"`:                                 "",
		`body.n == 2.5`:                                                  NotSelected,
		`body.n != 2`:                                                    NotSelected,
		`body.l[2] == null && body.n != null`:                            "",
		`body.l + body.l == [1.0, "a", null, 1u, "a", null]`:             "",
		`body.l + body.l != body.l`:                                      "",
		`body.m == {"a": 1.5} && body.m != {"a": 1}`:                     "",
		`1.0 in body.l + body.l && "a" in body.l && 3 in body.l + [3]`:   "",
		`2 in body.l`:                                                    NotSelected,
		`"a" in body.m && !("b" in body.m) && body.t in {"a": 1}`:        "",
		`body.t in ["a", "b"] && body.n in [1, 2.0]`:                     "",
		`body.t in body.t`:                                               NotEvaluated,
		`body.l.map(x, x).size() + body.l.filter(x, x != 1).size() == 5`: "",
		`body.many.map(x, x + 1).filter(x, x > 1).size() == 200`:         "",
		`body.many.exists(x, 3 in body.many)`:                            NotEvaluated,
		`body.missing == 2`:                                              NotEvaluated,
		`2 != body.missing`:                                              NotEvaluated,
		`body.missing in body.l`:                                         NotEvaluated,
		`body.missing == 2 || body.n == 2`:                               "",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			compiled, err := compileExpression(expression)
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "skipped", want, compiled.skips(deadLetter, at))
		})
	}
}

// An operation that needs only a part of a large map costs little, and takes no longer than it costs.
func TestLargeMaps(t *testing.T) {
	var many strings.Builder
	for i := range maxBodyValues / 2 {
		fmt.Fprintf(&many, `, "%d": 0`, i)
	}
	body := `{"l": [0` + strings.Repeat(", 0", 499) + `], "m": [{"": 0` + many.String() + `}]}`
	for _, operation := range []string{`body.m != [[]]`, `body.m != 1`, `body.m[0] != {}`, `body.m[0].exists(k, true)`, `!("a" in body.m[0])`} {
		t.Run(operation, func(t *testing.T) {
			compiled, err := compileExpression(`body.l.all(x, ` + operation + `)`)
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "error", nil, checkCost(t, compiled, orders.Read(&amqp.Delivery{Body: []byte(body)})))
		})
	}
}
