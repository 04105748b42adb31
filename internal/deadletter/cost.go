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
	"github.com/google/cel-go/interpreter"
)

// CEL charges an operation after it has ended, and charges nothing for some operations. An expression must therefore not contain an
// operation whose time grows much faster than its operands, or that copies a value many times. A list or a map refers to its elements, so
// it can be much larger than the message. Only comparisons read all elements in one call, and comparer limits them.

// growing are functions whose result can be longer than their operands. slow are functions that search a string at each position.
var (
	growing = []string{"replace", "join", "format", "split", "strings.quote"}
	slow    = []string{"indexOf", "lastIndexOf"}
	// zoned are functions with a time zone argument, for which CEL reads a file.
	zoned = []string{
		overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth, overloads.TimeGetDate,
		overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds,
		overloads.TimeGetMilliseconds,
	}
)

// tooCostly returns an error if an expression could use all memory or run forever.
func tooCostly(checked *cel.Ast) error {
	var found error
	tree := checked.NativeRep()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(expression ast.Expr) {
		if found == nil {
			found = tooCostlyNode(tree, expression)
		}
	}))
	return found
}

// tooCostlyNode is tooCostly for one node of an expression, without its children.
func tooCostlyNode(tree *ast.AST, expression ast.Expr) error {
	switch expression.Kind() {
	case ast.CallKind:
		call := expression.AsCall()
		switch name := call.FunctionName(); {
		case slices.Contains(growing, name):
			return fmt.Errorf("calls %s, which is not allowed because its result can use all memory. Compare the text as it "+
				"is, for example by contains, startsWith or matches", name)
		case slices.Contains(slow, name):
			return fmt.Errorf("calls %s, which is not allowed because it can take hours. Use contains, startsWith, endsWith or "+
				"matches", name)
		case name == overloads.Matches && call.Args()[len(call.Args())-1].Kind() != ast.LiteralKind:
			return errors.New("calls matches with a pattern that is not a literal, which is not allowed because it can use all memory")
		case slices.Contains(zoned, name) && len(call.Args()) > 0 && call.Args()[len(call.Args())-1].Kind() != ast.LiteralKind:
			return fmt.Errorf("calls %s with a time zone that is not a literal, which is not allowed because each message could name "+
				"another file to read", name)
		}
	case ast.StructKind:
		return fmt.Errorf("creates a %s, which is not allowed", expression.AsStruct().TypeName())
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

// errNested concerns expressions such as [[x, x]].exists(y, [[y, y]].exists(z, …)), in which each level doubles the size of a
// comparison.
var errNested = errors.New("nests a list, a map, or a value of unknown type in a list or a map, which is not allowed because a few " +
	"levels use all memory. Use fields and plain values there, such as int(body.a) + 1 instead of body.a + 1")

// plain are types whose values are no larger than their sources.
var plain = []types.Kind{
	types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind, types.DurationKind,
	types.TimestampKind, types.NullTypeKind, types.TypeKind,
}

// isPlain reports whether an element of a list or map is a part of the message, a constant, or of a plain type.
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

// isPart reports whether an expression is a variable, or a field or element of a variable.
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

// isConstant reports whether an expression is a literal, or a list or map of literals.
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

// charges adds the costs that CEL undercharges: operations on strings, whose type may be unknown at compile time, and comparisons of lists
// and maps.
type charges struct {
	// patterns maps each pattern of the expression to its number of parts; see patternParts.
	patterns map[string]int
}

// zoneCost is the cost of a time zone's file, which takes up to 50 µs to read.
const zoneCost = 500

// listSumCost is the cost of a sum of two lists. CEL does not copy the lists, so each access to an element passes through all sums.
const listSumCost = 100

// CallCost implements interpreter.ActualCostEstimator.
func (c charges) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		cost += smallerExtent(args[0], args[1])
	case operators.In:
		cost += textExtent(args[0])
		if list, ok := args[1].(traits.Lister); ok {
			cost += extentOf(list, maxExpressionCost)
		}
	case overloads.Matches:
		cost = c.matchCost(args[0], args[1])
	case operators.Add:
		cost += textExtent(args[0]) + textExtent(args[1])
		switch args[0].(type) {
		case traits.MutableLister: // the result of a loop, to which CEL appends
		case traits.Lister:
			cost = listSumCost
		}
	case overloads.Size, overloads.Contains, "charAt", "substring", "trim", "lowerAscii", "upperAscii", "reverse",
		overloads.TypeConvertString, overloads.TypeConvertBytes, overloads.TypeConvertInt, overloads.TypeConvertUint,
		overloads.TypeConvertDouble, overloads.TypeConvertBool, overloads.TypeConvertDuration, overloads.TypeConvertTimestamp:
		for _, arg := range args {
			cost += textExtent(arg)
		}
	default:
		if slices.Contains(zoned, function) && len(args) > 1 {
			cost = zoneCost
			break
		}
		return nil // CEL's own cost
	}
	return &cost
}

// comparer returns a call of ==, != or in that compares no values whose comparison costs more than an expression may, because CEL charges a
// call after it has ended. It returns other nodes unchanged.
func (c charges) comparer(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, isCall := node.(interpreter.InterpretableCall)
	if !isCall {
		return node, nil
	}
	function := call.Function()
	var compare func(a, b ref.Val) ref.Val
	switch function {
	case operators.Equals:
		compare = types.Equal
	case operators.NotEquals:
		compare = func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) }
	case operators.In:
		compare = func(a, b ref.Val) ref.Val {
			if container, ok := b.(traits.Container); ok {
				return container.Contains(a)
			}
			return types.NewErr("no such overload")
		}
	default:
		return node, nil
	}
	return interpreter.NewCall(call.ID(), function, call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if *c.CallCost(function, "", args, nil) > maxExpressionCost {
			return types.NewErr("the values are too large to compare") // CEL charges the cost, and thereby ends the evaluation
		}
		return compare(args[0], args[1])
	}), nil
}

// textExtent counts ten bytes of a string as one. It is zero for other values.
func textExtent(value ref.Val) uint64 {
	switch value := value.(type) {
	case types.String:
		return uint64(len(value)) / 10
	case types.Bytes:
		return uint64(len(value)) / 10
	}
	return 0
}

// smallerExtent returns the smaller extent of two values, or maxExpressionCost if both are larger. It takes no longer than a comparison, so
// it counts the values of a large list no further than those of the small one.
func smallerExtent(a, b ref.Val) uint64 {
	for limit := uint64(10); ; limit *= 10 {
		if extent := min(extentOf(a, limit), extentOf(b, limit)); extent < limit || limit >= maxExpressionCost {
			return extent
		}
	}
}

// extentOf counts the nested values of a value, and the bytes of strings by textExtent. It stops at a limit.
func extentOf(value ref.Val, limit uint64) uint64 {
	counted := 1 + textExtent(value)
	count := func(item ref.Val) {
		if counted < limit {
			counted += extentOf(item, limit-counted)
		}
	}
	switch value := value.(type) {
	case *longText:
		counted += uint64(len(value.text)) / 10
	case traits.Mapper:
		if uint64(value.Size().(types.Int)) >= limit {
			return limit
		}
		for keys := value.Iterator(); counted < limit && keys.HasNext() == types.True; {
			key := keys.Next()
			count(key)
			count(value.Get(key))
		}
	case traits.Lister:
		if uint64(value.Size().(types.Int)) >= limit {
			return limit
		}
		for items := value.Iterator(); counted < limit && items.HasNext() == types.True; {
			count(items.Next())
		}
	}
	return counted
}
