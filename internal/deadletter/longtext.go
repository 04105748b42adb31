package deadletter

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// maxText is the limit of a string in bytes. CEL charges a call after it has ended, and never charges the hash of a string, so an
// expression must not work on longer strings.
const maxText = 10 * maxExpressionCost

// longText is a string of a message that is longer than maxText. It can be compared for equality, and no function accepts it. CEL hashes
// the pointer.
type longText struct{ text string }

var longTextType = types.NewOpaqueType(fmt.Sprintf("text of more than %d bytes", maxText))

// ConvertToNative implements ref.Val.
func (*longText) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("no such overload")
}

// ConvertToType implements ref.Val.
func (*longText) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// Equal implements ref.Val. No string in an expression is as long.
func (t *longText) Equal(other ref.Val) ref.Val {
	text, ok := other.(*longText)
	return types.Bool(ok && t.text == text.text)
}

// Type implements ref.Val.
func (*longText) Type() ref.Type { return longTextType }

// Value implements ref.Val.
func (t *longText) Value() any { return t.text }
