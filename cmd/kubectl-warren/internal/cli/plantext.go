package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/internal/vhost"
)

var basisText = map[preview.Basis]string{
	preview.BasisNothing: "for an empty broker",
	preview.BasisStatus:  "compared with the broker according to the status",
}

var rejectModeText = map[v1alpha1.RejectMode]string{
	v1alpha1.RejectByReason: "ByReason: rejected messages go to the delay tier, other dead letters to the dead-letter queue",
	v1alpha1.RejectStraight: "Straight: every dead letter of the main queue goes to the delay tier",
}

var actionText = map[preview.Action]string{
	preview.Declare: "declare", preview.Bind: "bind", preview.Unbind: "unbind", preview.Delete: "delete",
	preview.DeleteWhenEmpty: "delete when empty", preview.Recreate: "recreate", preview.Wait: "wait", preview.Keep: "keep",
	preview.Unchanged: "unchanged", preview.Unknown: "unknown",
}

var actionColour = map[preview.Action]colour{
	preview.Declare: green, preview.Bind: green, preview.Unbind: yellow, preview.Delete: yellow, preview.DeleteWhenEmpty: yellow,
	preview.Recreate: red, preview.Wait: yellow, preview.Unknown: yellow, preview.Keep: faint, preview.Unchanged: faint,
}

func objectName(object preview.Object) string {
	if object.Kind != v1alpha1.KindBinding {
		return object.Name
	}
	return object.Source + " -> " + object.Destination
}

// notSet stands for an argument that an object does not have.
const notSet = "not set"

func objectDetail(object preview.Object, wide bool) string {
	var parts []string
	for _, difference := range object.Differences {
		parts = append(parts, fmt.Sprintf("%s: %s, should be %s",
			strings.TrimPrefix(difference.Path, "arguments."), cmp.Or(difference.Observed, notSet), cmp.Or(difference.Desired, notSet)))
	}
	if object.Type != "" {
		parts = append(parts, string(object.Type))
	}
	if object.Kind == v1alpha1.KindBinding {
		parts = append(parts, fmt.Sprintf("routing key %q", object.RoutingKey))
	}
	if len(object.Differences) == 0 && (wide || object.Action == preview.Declare || object.Action == preview.Bind) {
		parts = append(parts, argumentsText(object.Arguments)...)
	}
	if object.Message != "" && (wide || len(object.Differences) == 0) {
		parts = append(parts, object.Message)
	}
	return strings.Join(parts, "; ")
}

func argumentsText(arguments vhost.Arguments) []string {
	if len(arguments) == 0 {
		return nil
	}
	parts := make([]string, 0, len(arguments))
	for _, key := range arguments.Keys() {
		parts = append(parts, key+"="+vhost.Display(arguments[key]))
	}
	return []string{strings.Join(parts, " ")}
}

// summary counts the objects by action.
func summary(made preview.Preview) string {
	var parts []string
	for _, each := range []struct {
		actions []preview.Action
		text    string
	}{
		{[]preview.Action{preview.Declare, preview.Bind}, "to declare or bind"},
		{[]preview.Action{preview.Recreate}, recreatedBy(made)},
		{[]preview.Action{preview.Unbind, preview.Delete, preview.DeleteWhenEmpty}, "to remove"},
		{[]preview.Action{preview.Wait}, "to wait"},
		{[]preview.Action{preview.Unknown}, "unknown"},
		{[]preview.Action{preview.Keep}, "kept"},
		{[]preview.Action{preview.Unchanged}, "unchanged"},
	} {
		count := 0
		for _, action := range each.actions {
			count += made.Count(action)
		}
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, each.text))
		}
	}
	return strings.Join(parts, ", ") + "."
}

func recreatedBy(made preview.Preview) string {
	if made.Recreation != nil {
		return "to be recreated"
	}
	return "to be recreated by you"
}
