package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	amqp "github.com/rabbitmq/amqp091-go"
)

// MaxExpressionBytes is how long an expression may be, in bytes.
const MaxExpressionBytes = 2048

// maxExpressionCost is how much one message may cost, in the units of CEL: about a millisecond.
const maxExpressionCost = 10_000

// bodyValues is how many values the JSON of a body may have: they take about 350 bytes each, and a body of 16 MiB can have five million.
const bodyValues = 100_000

// expressionEnvironment has what an expression can ask of a message.
var expressionEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	texts := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.Variable("headers", texts),
		cel.Variable("properties", texts), // messageId, contentType and so on; those that the message has
		cel.Variable("reason", cel.StringType),
		cel.Variable("origin", texts), // queue, exchange, routingKey
		cel.Variable("age", cel.DurationType),
		cel.Variable("size", cel.IntType), // of the body, in bytes
		cel.Variable("redrives", cel.IntType),
		cel.Variable("body", cel.DynType), // parsed as JSON
		ext.Strings(),
	)
})

// compiledExpression is ready for use by several goroutines.
type compiledExpression struct {
	program    cel.Program
	expression string
	// failure says why the expression failed on a message for the first time; nil if it has not failed.
	failure atomic.Pointer[string]
}

// compileExpression checks an expression.
func compileExpression(expression string) (*compiledExpression, error) {
	if len(expression) > MaxExpressionBytes {
		return nil, fmt.Errorf("is %d bytes long, at most %d are allowed", len(expression), MaxExpressionBytes)
	}
	environment, err := expressionEnvironment()
	if err != nil {
		return nil, fmt.Errorf("make the environment of CEL: %w", err)
	}
	checked, issues := environment.Compile(expression)
	if issues.Err() != nil {
		return nil, errors.New(strings.ReplaceAll(issues.Err().Error(), "\n", " "))
	}
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return nil, fmt.Errorf("is of type %v and must be true or false", kind)
	}
	if err := tooCostly(checked); err != nil {
		return nil, err
	}
	program, err := environment.Program(
		checked, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(charges{}), cel.CostLimit(maxExpressionCost))
	if err != nil {
		return nil, err
	}
	return &compiledExpression{program: program, expression: expression}, nil
}

// skips says why the expression does not mean a message; empty if the expression does.
func (e *compiledExpression) skips(letter Letter, now time.Time) SkipReason {
	result, _, err := e.program.Eval(&variables{letter: letter, now: now})
	switch {
	case err != nil:
		e.failure.CompareAndSwap(nil, new(e.failureText(err)))
		return NotEvaluated
	case result == types.True:
		return ""
	case result == types.False:
		return NotSelected
	}
	e.failure.CompareAndSwap(nil, new(fmt.Sprintf("the result is of type %s and must be true or false", result.Type().TypeName())))
	return NotEvaluated
}

// The beginnings of errors that hold no value of a message. The last two are in this file.
var plainFailures = []string{"no such overload", "operation cancelled", "division by zero", "modulus by zero", "the body ", "the message "}

// failureText describes an error of CEL without values of a message. Conversions such as int(body.n) put the value into their error.
func (e *compiledExpression) failureText(err error) string {
	text := err.Error()
	if key, found := strings.CutPrefix(text, "no such key: "); found {
		if strings.Contains(e.expression, key) {
			return text
		}
		return "no such key"
	}
	if slices.ContainsFunc(plainFailures, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		return text
	}
	return "an operation failed, such as the conversion of a value"
}

// variables give an expression what it asks for, and nothing more: to parse a body takes longest.
type variables struct {
	letter Letter
	now    time.Time
	body   any // nil until it is asked for
}

// Parent is part of interpreter.Activation.
func (v *variables) Parent() interpreter.Activation { return nil }

// ResolveName gives the value of a variable. A body that is no JSON is an error of the expression.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "headers":
		return valueOf(v.letter.Headers), true
	case "properties":
		return Properties(v.letter.Delivery), true
	case "reason":
		return string(v.letter.Reason), true
	case "origin":
		origin := v.letter.Origin
		return map[string]any{"queue": origin.Queue, "exchange": origin.Exchange, "routingKey": origin.RoutingKey}, true
	case "age":
		if v.letter.Origin.DiedAt.IsZero() {
			return types.NewErr("the message does not tell when it died"), true
		}
		return v.now.Sub(v.letter.Origin.DiedAt), true
	case "size":
		return int64(len(v.letter.Body)), true
	case "redrives":
		return int64(v.letter.Redrives), true
	case "body":
		if v.body == nil {
			v.body = parse(v.letter.Body)
		}
		return v.body, true
	}
	return nil, false
}

// Properties are those that a message has, by the names of AMQP in camel case.
func Properties(message *amqp.Delivery) map[string]any {
	had := map[string]any{}
	for name, value := range map[string]string{
		"contentType": message.ContentType, "contentEncoding": message.ContentEncoding, "correlationId": message.CorrelationId,
		"replyTo": message.ReplyTo, "expiration": message.Expiration, "messageId": message.MessageId, "type": message.Type,
		"userId": message.UserId, "appId": message.AppId,
	} {
		if value != "" {
			had[name] = value
		}
	}
	if !message.Timestamp.IsZero() {
		had["timestamp"] = message.Timestamp
	}
	had["priority"], had["deliveryMode"] = int64(message.Priority), int64(message.DeliveryMode)
	return had
}

// parse reads a body as JSON.
func parse(body []byte) any {
	if hasMoreValues(body, bodyValues) {
		return types.NewErr("the body has more than %d values", bodyValues)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.NewErr("the body is no JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.NewErr("the body is no JSON")
	}
	return valueOf(value)
}

// hasMoreValues says whether a JSON text has more values than a limit: each begins after a bracket, a brace or a comma.
func hasMoreValues(text []byte, limit int) bool {
	if len(text) <= limit {
		return false
	}
	count, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++ // what is escaped, such as a quote
		case '[', '{', ',':
			if !quoted {
				count++
			}
		}
	}
	return count > limit
}

// valueOf is a field of AMQP or JSON as CEL knows values. Numbers of JSON without a fraction are integers, as large ids have to be.
func valueOf(value any) any {
	switch value := value.(type) {
	case nil:
		return types.NullValue
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, err := value.Float64()
		if err != nil {
			return types.NewErr("the body has a number that is too large")
		}
		return number
	case amqp.Decimal:
		return decimal(value)
	case amqp.Table:
		return mapOf(value)
	case map[string]any:
		return mapOf(value)
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = valueOf(item)
		}
		return list
	case int8:
		return int64(value)
	case int16:
		return int64(value)
	case uint8:
		return int64(value)
	case uint16:
		return int64(value)
	case uint32:
		return int64(value)
	}
	return value
}

func mapOf(table map[string]any) map[string]any {
	values := make(map[string]any, len(table))
	for name, value := range table {
		values[name] = valueOf(value)
	}
	return values
}

func decimal(value amqp.Decimal) float64 {
	number := float64(value.Value)
	for range value.Scale {
		number /= 10
	}
	return number
}
