package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	amqp "github.com/rabbitmq/amqp091-go"
)

// maxExpressionBytes is the limit of an expression's length in bytes.
const maxExpressionBytes = 2048

// maxExpressionCost limits the evaluation for one message, in CEL's cost units. An evaluation at the limit usually takes a few
// milliseconds. It takes up to 30 ms with regular expressions, and up to 60 ms with sums of a hundred lists.
const maxExpressionCost = 10_000

// maxBodyValues limits the number of JSON values in a body. A value takes about 350 bytes, and a body of 16 MiB can have five million.
const maxBodyValues = 100_000

// expressionEnvironment declares the variables and functions of expressions.
var expressionEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	texts := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.Variable("headers", texts),
		cel.Variable("properties", texts), // messageId, contentType and so on, if the message has them
		cel.Variable("reason", cel.StringType),
		cel.Variable("origin", texts), // queue, exchange, routingKey
		cel.Variable("age", cel.DurationType),
		cel.Variable("size", cel.IntType), // of the body, in bytes
		cel.Variable("redrives", cel.IntType),
		cel.Variable("body", cel.DynType), // parsed as JSON
		ext.Strings(),
	)
})

// compiledExpression is safe for concurrent use.
type compiledExpression struct {
	program    cel.Program
	expression string
	// failure describes the first evaluation error; nil if there was none.
	failure atomic.Pointer[string]
	// isSlow: the last evaluation took longer than slowEvaluation.
	isSlow atomic.Bool
}

// slowEvaluation is the duration from which an evaluation counts as slow. Most evaluations take microseconds. Parsing a body of 16 MiB
// takes a second, which CEL does not charge.
const slowEvaluation = 5 * time.Millisecond

// slowLane is held during the evaluation of an expression whose last evaluation was slow. So all slow expressions of jobs and browses
// together use one core, and leave the other cores to other work.
var slowLane sync.Mutex

func (e *compiledExpression) evaluate(deadLetter Message, now time.Time) (ref.Val, error) {
	if e.isSlow.Load() {
		slowLane.Lock()
		defer slowLane.Unlock()
	}
	begun := time.Now()
	result, _, err := e.program.Eval(&variables{deadLetter: deadLetter, now: now})
	e.isSlow.Store(time.Since(begun) > slowEvaluation)
	return result, err
}

func compileExpression(expression string) (*compiledExpression, error) {
	if len(expression) > maxExpressionBytes {
		return nil, fmt.Errorf("is %d bytes long, at most %d are allowed", len(expression), maxExpressionBytes)
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
	costs := charges{patterns: map[string]int{}}
	program, err := environment.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(costs.matchers()...),
		cel.CustomDecoratorV2(costs.comparer), cel.CostTracking(costs), cel.CostLimit(maxExpressionCost))
	if err != nil {
		return nil, err
	}
	return &compiledExpression{program: program, expression: expression}, nil
}

// skips returns why the expression does not select a message; empty if it does.
func (e *compiledExpression) skips(deadLetter Message, now time.Time) SkipReason {
	result, err := e.evaluate(deadLetter, now)
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

// Prefixes of errors that contain no value of a message. The last two originate in this file.
var plainFailures = []string{"no such overload", "operation cancelled", "division by zero", "modulus by zero", "the body ", "the message "}

// failureText describes a CEL error without values of a message. Conversions such as int(body.n) include the value in their
// error.
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

// variables resolves the variables of an expression on demand, because parsing the body is slow. An expression may read a variable for
// each element of a list, and CEL charges nothing for that, so the variables that take long are converted once.
type variables struct {
	deadLetter Message
	now        time.Time
	// These are nil until an expression reads them.
	headers, properties, body any
}

func (v *variables) Parent() interpreter.Activation { return nil }

// ResolveName returns the value of a variable. A body that is missing or not JSON is an evaluation error.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "headers":
		if v.headers == nil {
			v.headers = valueOf(v.deadLetter.Headers)
		}
		return v.headers, true
	case "properties":
		if v.properties == nil {
			v.properties = Properties(v.deadLetter.Delivery)
		}
		return v.properties, true
	case "reason":
		return string(v.deadLetter.Reason), true
	case "origin":
		origin := v.deadLetter.Origin
		return map[string]any{"queue": origin.Queue, "exchange": origin.Exchange, "routingKey": origin.RoutingKey}, true
	case "age":
		if v.deadLetter.Origin.DiedAt.IsZero() {
			return types.NewErr("the message has no time of death"), true
		}
		return v.now.Sub(v.deadLetter.Origin.DiedAt), true
	case "size":
		return v.deadLetter.Size, true
	case "redrives":
		return int64(v.deadLetter.Redrives), true
	case "body":
		switch {
		case v.deadLetter.Size > int64(len(v.deadLetter.Body)):
			return types.NewErr("the body has %d bytes, which are too many to read", v.deadLetter.Size), true
		case v.body == nil:
			v.body = parse(v.deadLetter.Body)
		}
		return v.body, true
	}
	return nil, false
}

// Properties returns the properties of a message, by their AMQP names in camel case.
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

func parse(body []byte) any {
	if hasMoreValues(body, maxBodyValues) {
		return types.NewErr("the body has more than %d values", maxBodyValues)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.NewErr("the body is not JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.NewErr("the body is not JSON")
	}
	if hasLongName(value) {
		return types.NewErr("the body has a name of more than %d bytes", maxText)
	}
	return valueOf(value)
}

// hasLongName reports whether a value of JSON has a name that is longer than maxText. An error inside of a list or map would not suffice,
// because CEL regards an error as equal to any value there.
func hasLongName(value any) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, hasLongName)
	case map[string]any:
		for name, item := range value {
			if len(name) > maxText || hasLongName(item) {
				return true
			}
		}
	}
	return false
}

// hasMoreValues reports whether a JSON text has more values than a limit. Each value begins after a bracket, a brace or a comma.
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
			i++ // skip the escaped character
		case '[', '{', ',':
			if !quoted {
				count++
			}
		}
	}
	return count > limit
}

// valueOf converts a field of AMQP or JSON to a CEL value, which contains no error. JSON numbers without a fraction become integers, so
// that large IDs keep all digits.
func valueOf(value any) any {
	switch value := value.(type) {
	case nil:
		return types.NullValue
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, _ := value.Float64() // infinite if the number is too large
		return number
	case string:
		if len(value) > maxText {
			return &longText{value}
		}
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

func mapOf(table map[string]any) any {
	values := make(map[string]any, len(table))
	for name, value := range table {
		values[name] = valueOf(value)
	}
	return &object{Mapper: types.NewStringInterfaceMap(types.DefaultTypeAdapter, values), values: values}
}

// object is a map that copies its names once. Other maps of CEL copy them for each loop, and CEL charges nothing for that, so an
// expression with a loop in a loop could take seconds.
type object struct {
	traits.Mapper
	values map[string]any
	names  traits.Lister // nil until an expression iterates
}

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator {
	if o.names == nil {
		o.names = types.NewStringList(types.DefaultTypeAdapter, slices.Collect(maps.Keys(o.values)))
	}
	return o.names.Iterator()
}

func decimal(value amqp.Decimal) float64 {
	number := float64(value.Value)
	for range value.Scale {
		number /= 10
	}
	return number
}
