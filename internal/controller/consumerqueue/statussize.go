package consumerqueue

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// A status must be writable whatever a broker says: the API server refuses strings that are longer than the schema admits,
// and etcd what has more than 1.5 MiB. What speaks of the broker is cut to size here, as JSON, in which one byte can take
// six.
const (
	// maxStatusBytes is how large a status is at most.
	maxStatusBytes = 512 << 10
	// conditionBytes is kept free for the conditions and all that has no list of its own.
	conditionBytes = 80 << 10
	// jobBytes is kept free for status.finishedJobs.
	jobBytes = 16 << 10
	// bindingBytes is how large the topology may become by bindings; exchanges and queues are never left out.
	bindingBytes = 256 << 10
	maxMessage   = 4 << 10
	maxValue     = 1 << 10
	maxPath      = 512
	maxName      = 255
)

// setTopology writes what was found of the topology into the status, cut to size.
func (r *report) setTopology(entries []v1alpha1.TopologyEntry, comparison plan.Comparison, done plan.Plan) error {
	hash, err := plan.Hash(comparison.Changes)
	if err != nil {
		return err
	}
	r.status.PlanHash = hash
	describeWithin(r.status, entries, comparison)
	r.status.TopologyOmitted += int32(comparison.Unlisted)
	if done.Count() > 0 && len(comparison.Changes) == 0 {
		r.setLastSynced()
	}
	return nil
}

// describeWithin writes the lists. Where they are too large, foreign bindings are left out first, then changes, then
// advisories, then bindings.
func describeWithin(status *v1alpha1.ConsumerQueueStatus, entries []v1alpha1.TopologyEntry, comparison plan.Comparison) {
	advisories, changes := slices.Clone(comparison.Advisories), slices.Clone(comparison.Changes)
	for i := range advisories {
		advisories[i].Message = conditions.TruncateEncoded(advisories[i].Message, maxMessage)
	}
	for i := range changes {
		changes[i] = shownChange(changes[i])
	}
	own, foreign := divided(entries)
	own, omitted := fitted(own)
	left := maxStatusBytes - conditionBytes - jobBytes
	if len(advisories)+len(changes)+len(foreign) > 0 {
		left -= conditions.EncodedSize(own)
	}
	status.Advisories, _ = within(advisories, v1alpha1.MaxChangeEntries, &left)
	status.Changes, status.ChangesOmitted = within(changes, v1alpha1.MaxChangeEntries, &left)
	shown, _ := within(shownForeign(foreign), v1alpha1.MaxTopologyEntries-len(own), &left)
	status.Topology = slices.Concat(own, shown)
	status.TopologyOmitted = omitted + int32(len(foreign)-len(shown))
}

// fitted are as many entries as the status may hold. Exchanges and queues are never left out: what is not remembered
// cannot be cleaned up.
func fitted(entries []v1alpha1.TopologyEntry) (kept []v1alpha1.TopologyEntry, omitted int32) {
	own, foreign := divided(entries)
	if len(foreign) == 0 && len(own) <= v1alpha1.MaxTopologyEntries && encodedAtMost(own) <= bindingBytes {
		return own, 0 // as a rule
	}
	objects := slices.DeleteFunc(slices.Clone(own), isBinding)
	left := bindingBytes - conditions.EncodedSize(objects)
	objects, omitted = cut(objects, v1alpha1.MaxTopologyEntries)
	bindings := slices.DeleteFunc(slices.Clone(own), func(entry v1alpha1.TopologyEntry) bool { return !isBinding(entry) })
	bindings, more := within(bindings, v1alpha1.MaxTopologyEntries-len(objects), &left)
	shown, _ := within(shownForeign(foreign), v1alpha1.MaxTopologyEntries-len(objects)-len(bindings), &left)
	kept = slices.Clip(own)
	if omitted+more > 0 {
		kept = slices.Concat(objects, bindings)
	}
	return append(kept, shown...), omitted + more + int32(len(foreign)-len(shown))
}

func isForeign(entry v1alpha1.TopologyEntry) bool { return entry.State == v1alpha1.StateForeign }

func isBinding(entry v1alpha1.TopologyEntry) bool { return entry.Kind == v1alpha1.KindBinding }

// encodedAtMost is a size that entries do not exceed as JSON. It costs nothing, and is up to six times as large as need be.
func encodedAtMost(entries []v1alpha1.TopologyEntry) int {
	const fields = len(`{"kind":"","name":"","source":"","destination":"","routingKey":"","arguments":"","role":"","state":"",` +
		`"origin":"","lastSyncedHash":""},`)
	size := len("null")
	for i := range entries {
		e := &entries[i]
		texts := len(e.Kind) + len(e.Name) + len(e.Source) + len(e.Destination) + len(e.RoutingKey) + len(e.Arguments) + len(e.Role) +
			len(e.State) + len(e.Origin) + len(e.LastSyncedHash)
		size += fields + 6*texts
	}
	return size
}

// divided are what is ours, and the bindings that are not.
func divided(entries []v1alpha1.TopologyEntry) (own, foreign []v1alpha1.TopologyEntry) {
	if !slices.ContainsFunc(entries, isForeign) {
		return entries, nil
	}
	for _, entry := range entries {
		if isForeign(entry) {
			foreign = append(foreign, entry)
		} else {
			own = append(own, entry)
		}
	}
	return own, foreign
}

// shownForeign are bindings of others as the status shows them: long arguments as their hash, so that they can be told
// apart. Those whose names are longer than AMQP allows cannot be shown; no real broker has them.
func shownForeign(foreign []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	shown := make([]v1alpha1.TopologyEntry, 0, len(foreign))
	for _, entry := range foreign {
		entry.Source, entry.RoutingKey = conditions.ValidUTF8(entry.Source), conditions.ValidUTF8(entry.RoutingKey)
		entry.Arguments = hashed(entry.Arguments)
		if len(entry.Source) <= maxName && len(entry.RoutingKey) <= maxName {
			shown = append(shown, entry)
		}
	}
	return shown
}

func shownChange(change v1alpha1.Change) v1alpha1.Change {
	change.Arguments = hashed(change.Arguments)
	change.Path = conditions.TruncateEncoded(change.Path, maxPath)
	change.Desired = conditions.TruncateEncoded(change.Desired, maxValue)
	change.Observed = conditions.TruncateEncoded(change.Observed, maxValue)
	change.Message = conditions.TruncateEncoded(change.Message, maxMessage)
	return change
}

// hashed is a text that is not too long, or its hash and length.
func hashed(text string) string {
	if len(text) <= maxValue {
		return conditions.ValidUTF8(text)
	}
	return fmt.Sprintf("sha256:%x (%d bytes)", sha256.Sum256([]byte(text)), len(text))
}

// within are as many items as fit, and how many do not; what they take is taken off the bytes that are left.
func within[T any](list []T, most int, left *int) (kept []T, omitted int32) {
	list, omitted = cut(list, max(0, most))
	for i := range list {
		size := conditions.EncodedSize(list[i]) + len(",")
		if size > *left {
			return list[:i:i], omitted + int32(len(list)-i)
		}
		*left -= size
	}
	return list, omitted
}

// cut shortens a list and counts what it leaves out.
func cut[T any](list []T, most int) (kept []T, omitted int32) {
	if len(list) <= most {
		return list, 0
	}
	return list[:most], int32(len(list) - most)
}
