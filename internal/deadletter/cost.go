package deadletter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CEL charges an operation after the operation has ended, and charges nothing for some. So an expression must not have an operation
// that takes much more than its operands are large, nor make an operand that is much larger than the message.

// growing are functions that make more of a text than there was, and slow are those that look at each place of a text for the other.
var (
	growing = []string{"replace", "join", "format", "split", "strings.quote"}
	slow    = []string{"indexOf", "lastIndexOf"}
	// zoned are functions that take the name of a time zone, whose file is then read.
	zoned = []string{
		overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth, overloads.TimeGetDate,
		overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds,
		overloads.TimeGetMilliseconds,
	}
)

// tooCostly says what an expression does that could take all memory, or take for ever; nil if the expression does nothing of that kind.
func tooCostly(checked *cel.Ast) error {
	var found error
	tree := checked.NativeRep()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(expression ast.Expr) {
		if found == nil {
			found = tooCostlyAlone(tree, expression)
		}
	}))
	return found
}

// tooCostlyAlone is tooCostly for an expression without those within.
func tooCostlyAlone(tree *ast.AST, expression ast.Expr) error {
	switch expression.Kind() {
	case ast.CallKind:
		call := expression.AsCall()
		switch name := call.FunctionName(); {
		case slices.Contains(growing, name):
			return fmt.Errorf("calls %s, which is not allowed: of a text it can make one that takes all memory. Compare the text as it "+
				"is, for example by contains, startsWith or matches", name)
		case slices.Contains(slow, name):
			return fmt.Errorf("calls %s, which is not allowed: it can take hours. Use contains, startsWith, endsWith or matches", name)
		case name == overloads.Matches && call.Args()[len(call.Args())-1].Kind() != ast.LiteralKind:
			return errors.New("calls matches with a pattern that is not a plain text, which is not allowed: it can take all memory")
		case slices.Contains(zoned, name) && len(call.Args()) > 0 && call.Args()[len(call.Args())-1].Kind() != ast.LiteralKind:
			return fmt.Errorf("calls %s with a time zone that is not a plain text, which is not allowed: each message could name another "+
				"file to read", name)
		}
	case ast.StructKind:
		return fmt.Errorf("makes a %s, which is not allowed", expression.AsStruct().TypeName())
	case ast.ListKind:
		for _, element := range expression.AsList().Elements() {
			if !isPlain(tree, element) {
				return errNested
			}
		}
	case ast.MapKind:
		for _, entry := range expression.AsMap().Entries() {
			if !isPlain(tree, entry.AsMapEntry().Value()) {
				return errNested
			}
		}
	}
	return nil
}

// errNested is about [[x, x]].exists(y, [[y, y]].exists(z, …)): each turn doubles what a comparison has to look at.
var errNested = errors.New("puts a list, a map, or something of an unknown type into a list or a map, which is not allowed: a few " +
	"turns of that take all memory. Use fields and plain values there, such as int(body.a) + 1 instead of body.a + 1")

// plain are types whose values are no larger than what they were made of.
var plain = []types.Kind{
	types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind, types.DurationKind,
	types.TimestampKind, types.NullTypeKind, types.TypeKind,
}

// isPlain says whether an element of a list or a map is a part of the message, a constant or of a plain type.
func isPlain(tree *ast.AST, element ast.Expr) bool {
	if slices.Contains(plain, tree.GetType(element.ID()).Kind()) || isPart(element) || isConstant(element) {
		return true
	}
	if element.Kind() != ast.CallKind || element.AsCall().FunctionName() != operators.Conditional {
		return false
	}
	branches := element.AsCall().Args()[1:]
	return isPlain(tree, branches[0]) && isPlain(tree, branches[1])
}

// isPart says whether an expression is a variable, or a field or an element of one.
func isPart(expression ast.Expr) bool {
	switch expression.Kind() {
	case ast.IdentKind:
		return true
	case ast.SelectKind:
		return isPart(expression.AsSelect().Operand())
	case ast.CallKind:
		return expression.AsCall().FunctionName() == operators.Index && isPart(expression.AsCall().Args()[0])
	}
	return false
}

// isConstant says whether an expression is a value that is written out.
func isConstant(expression ast.Expr) bool {
	switch expression.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		return !slices.ContainsFunc(expression.AsList().Elements(), func(element ast.Expr) bool { return !isConstant(element) })
	case ast.MapKind:
		return !slices.ContainsFunc(expression.AsMap().Entries(), func(entry ast.EntryExpr) bool {
			return !isConstant(entry.AsMapEntry().Key()) || !isConstant(entry.AsMapEntry().Value())
		})
	}
	return false
}

// charges are for what CEL undercharges: operations on texts whose type nobody knows before, and comparisons of lists and maps.
type charges struct{}

// zoneCost is for the file of a time zone: reading one takes up to 50 µs.
const zoneCost = 500

// CallCost implements interpreter.ActualCostEstimator.
func (charges) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		cost += min(extentOf(args[0], maxExpressionCost), extentOf(args[1], maxExpressionCost))
	case operators.In:
		if list, ok := args[1].(traits.Lister); ok {
			cost += extentOf(list, maxExpressionCost)
		}
	case operators.Add, "charAt", "substring", "trim", "lowerAscii", "upperAscii", "reverse", overloads.TypeConvertString,
		overloads.TypeConvertBytes:
		for _, arg := range args {
			if _, ok := arg.(traits.Lister); !ok {
				cost += extentOf(arg, maxExpressionCost)
			}
		}
	default:
		if slices.Contains(zoned, function) && len(args) > 1 {
			cost = zoneCost
			break
		}
		return nil // what CEL charges
	}
	return &cost
}

// extentOf counts the values in a value, and ten bytes of a text as one. It counts no further than a limit.
func extentOf(value ref.Val, limit uint64) uint64 {
	counted := uint64(1)
	count := func(item ref.Val) {
		if counted < limit {
			counted += extentOf(item, limit-counted)
		}
	}
	switch value := value.(type) {
	case types.String:
		counted += uint64(len(value)) / 10
	case types.Bytes:
		counted += uint64(len(value)) / 10
	case traits.Mapper:
		for keys := value.Iterator(); counted < limit && keys.HasNext() == types.True; {
			key := keys.Next()
			count(key)
			count(value.Get(key))
		}
	case traits.Lister:
		for items := value.Iterator(); counted < limit && items.HasNext() == types.True; {
			count(items.Next())
		}
	}
	return counted
}
