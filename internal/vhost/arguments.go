package vhost

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Arguments are the arguments of an exchange, queue or binding, or the definition of a policy. Normalized values are int64,
// string, bool, float64, nil, and tables and arrays of these.
type Arguments map[string]any

// SingleActiveConsumer reports whether the broker delivers to one consumer only, and refuses basic.get.
func (a Arguments) SingleActiveConsumer() bool {
	single, _ := a[ArgSingleActiveConsumer].(bool)
	return single
}

// Equal reports whether a broker treats two sets of arguments as the same. Integer widths and the order of keys do not matter,
// and an absent set equals an empty one.
func (a Arguments) Equal(b Arguments) bool {
	return maps.EqualFunc(a, b, SameValue)
}

// JSON encodes arguments with sorted keys. An empty set becomes the empty string.
func (a Arguments) JSON() string {
	if len(a) == 0 {
		return ""
	}
	text, err := json.Marshal(a)
	if err != nil { // a value that JSON cannot encode, such as NaN
		return "{}"
	}
	return string(text)
}

// Keys returns the names of the arguments in order.
func (a Arguments) Keys() []string {
	return slices.Sorted(maps.Keys(a))
}

// ParseArguments returns the arguments of a JSON object; none for an empty text.
func ParseArguments(text string) (Arguments, error) {
	if text == "" {
		return nil, nil
	}
	var read map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	return Normalize(read), nil
}

// Normalize converts values to the types that topology.Desired uses. Integers of any width, json.Number and whole floats become
// int64; []byte becomes string. Normalize also converts the values in tables and arrays.
func Normalize(arguments map[string]any) Arguments {
	if len(arguments) == 0 {
		return nil
	}
	normal := make(Arguments, len(arguments))
	for key, value := range arguments {
		normal[key] = Normal(value)
	}
	return normal
}

// Normal is Normalize for one value.
func Normal(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return whole
		}
		if float, err := v.Float64(); err == nil {
			return Normal(float)
		}
		return v.String()
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case float32:
		return Normal(float64(v))
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case []any:
		normal := make([]any, len(v))
		for i := range v {
			normal[i] = Normal(v[i])
		}
		return normal
	case map[string]any:
		return map[string]any(Normalize(v))
	}
	switch v := reflect.ValueOf(value); {
	case !v.IsValid():
		return nil
	case v.CanInt():
		return v.Int()
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint())
	}
	return value
}

// SameValue reports whether a broker treats two values as the same.
func SameValue(a, b any) bool {
	return reflect.DeepEqual(Normal(a), Normal(b))
}

// Display formats a value for messages. Strings are unquoted, unless they would look like a number or a boolean.
func Display(value any) string {
	value = Normal(value)
	text, isString := value.(string)
	if !isString {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		return string(encoded)
	}
	var other any
	if text == "" || json.Unmarshal([]byte(text), &other) == nil {
		return strconv.Quote(text)
	}
	return text
}
