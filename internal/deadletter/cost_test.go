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
