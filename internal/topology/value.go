package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// Normalize brings values to the types that Desired uses, whatever the way they came: integers of any width, json.Number
// and whole floats become int64; []byte becomes string. Tables and arrays are normalized within.
func Normalize(arguments map[string]any) Arguments {
	if len(arguments) == 0 {
		return nil
	}
	normal := make(Arguments, len(arguments))
	for key, value := range arguments {
		normal[key] = normalValue(value)
	}
	return normal
}

func normalValue(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return whole
		}
		if float, err := v.Float64(); err == nil {
			return normalValue(float)
		}
		return v.String()
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case float32:
		return normalValue(float64(v))
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case []any:
		normal := make([]any, len(v))
		for i := range v {
			normal[i] = normalValue(v[i])
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

func sameValue(a, b any) bool {
	return reflect.DeepEqual(normalValue(a), normalValue(b))
}

// display renders a value for people: strings bare, unless that would make them look like a number or a truth value.
func display(value any) string {
	value = normalValue(value)
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
