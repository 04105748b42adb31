package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// difference is a property that RabbitMQ cannot change on an existing object.
type difference struct {
	path              string
	desired, observed any
}

// absent marks the side of a difference that lacks the property. nil is an argument without a value.
type absent struct{}

func exchangeDifferences(desired topology.Exchange, found vhost.Exchange) []difference {
	if !desired.Declare {
		return nil
	}
	differences := propertyDifferences([]difference{
		{path: "type", desired: string(desired.Type), observed: found.Type},
		{path: "durable", desired: true, observed: found.Durable},
		{path: "autoDelete", desired: false, observed: found.AutoDelete},
		{path: "internal", desired: false, observed: found.Internal},
	})
	if desired.Role == v1alpha1.RoleSource {
		return differences // the exchange's owner may have set an alternate exchange
	}
	return append(differences, argumentDifferences(nil, found.Arguments)...)
}

func queueDifferences(desired topology.Queue, found vhost.Queue) []difference {
	differences := propertyDifferences([]difference{
		{path: "durable", desired: true, observed: found.Durable},
		{path: "autoDelete", desired: false, observed: found.AutoDelete},
		{path: "exclusive", desired: false, observed: found.Exclusive},
	})
	return append(differences, argumentDifferences(desired.Arguments, found.Arguments)...)
}

func propertyDifferences(properties []difference) []difference {
	return slices.DeleteFunc(properties, func(d difference) bool { return vhost.SameValue(d.desired, d.observed) })
}

// argumentDifferences compares arguments one by one. An absent argument differs from the broker's default, because the broker
// treats them as different.
func argumentDifferences(desired, found vhost.Arguments) []difference {
	var differences []difference
	names := append(desired.Keys(), found.Keys()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		want, isWanted := desired[name]
		have, isThere := found[name]
		if isWanted == isThere && vhost.SameValue(want, have) {
			continue
		}
		d := difference{path: "arguments." + name, desired: want, observed: have}
		if !isWanted {
			d.desired = absent{}
		}
		if !isThere {
			d.observed = absent{}
		}
		differences = append(differences, d)
	}
	return differences
}

// changesOf returns the changes for these differences of an object.
func changesOf(differences []difference, entry v1alpha1.TopologyEntry) []v1alpha1.Change {
	changes := make([]v1alpha1.Change, 0, len(differences))
	for _, d := range differences {
		change := changeOf(entry, v1alpha1.EffectRecreate, "")
		change.Path = d.path
		if d.observed != any(absent{}) {
			change.Observed = vhost.Display(d.observed)
		}
		if d.desired != any(absent{}) {
			change.Desired = vhost.Display(d.desired)
		}
		advice := fmt.Sprintf("the %s must be recreated", strings.ToLower(string(change.Kind)))
		if entry.Role == v1alpha1.RoleSource {
			advice = sourceAdvice
		}
		change.Message = describe(change) + "; " + advice
		changes = append(changes, change)
	}
	return changes
}

// sourceAdvice is what to do about a source exchange that differs. To delete it would remove the bindings of all other clients.
const sourceAdvice = "correct or remove the type in bindings, and do not delete the exchange, because other clients may use it"

// describe describes a difference: x-message-ttl is not set, should be 300000.
func describe(change v1alpha1.Change) string {
	is, should := "is not set", "should not be set"
	if change.Observed != "" {
		is = "is " + change.Observed
	}
	if change.Desired != "" {
		should = "should be " + change.Desired
	}
	return fmt.Sprintf("%s %s, %s", strings.TrimPrefix(change.Path, "arguments."), is, should)
}

// DescribeRecreation describes each object that requires recreation, with its differences.
func DescribeRecreation(changes []v1alpha1.Change) []string {
	var objects []string
	differences := map[string][]string{}
	for _, change := range changes {
		if change.Effect != v1alpha1.EffectRecreate {
			continue
		}
		object := fmt.Sprintf("%s %q", strings.ToLower(string(change.Kind)), change.Name)
		if differences[object] == nil {
			objects = append(objects, object)
		}
		differences[object] = append(differences[object], describe(change))
	}
	for i, object := range objects {
		objects[i] = object + " must be recreated: " + strings.Join(differences[object], "; ")
	}
	return objects
}
