package consumerqueue

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// A status must be writable whatever a broker returns: the API server refuses strings that are longer than the schema allows, and
// etcd refuses more than 1.5 MiB. So the lists that come from the broker are truncated here, by their size as JSON, in which one
// byte can take six.
const (
	// maxStatusBytes limits a status, in bytes.
	maxStatusBytes = 512 << 10
	// conditionBytes is reserved for the conditions and all fields that are not limited here.
	conditionBytes = 80 << 10
	// jobBytes is reserved for status.finishedJobs.
	jobBytes = 16 << 10
	// bindingBytes limits the topology with bindings. Exchanges and queues are never left out.
	bindingBytes = 256 << 10
	maxMessage   = 4 << 10
	maxValue     = 1 << 10
	maxPath      = 512
	maxName      = 255
)

// setTopology writes the topology into the status, truncated to fit.
func (r *report) setTopology(entries []v1alpha1.TopologyEntry, comparison plan.Comparison, done plan.Plan) {
	r.status.PlanHash = plan.Hash(comparison.Changes)
	describeWithin(r.status, entries, comparison)
	r.status.TopologyOmitted += int32(comparison.Unlisted)
	if done.Count() > 0 && len(comparison.Changes) == 0 {
		r.setLastSynced()
	}
}

// describeWithin writes the lists. If they are too large, it leaves out foreign bindings first, then changes, then advisories,
// then bindings.
func describeWithin(status *v1alpha1.ConsumerQueueStatus, entries []v1alpha1.TopologyEntry, comparison plan.Comparison) {
	advisories, changes := slices.Clone(comparison.Advisories), slices.Clone(comparison.Changes)
	for i := range advisories {
		advisories[i].Message = conditions.TruncateEncoded(advisories[i].Message, maxMessage)
	}
	for i := range changes {
		changes[i] = shownChange(changes[i])
	}
	own, foreign := splitByOwner(entries)
	own, omitted := truncated(own)
	left := maxStatusBytes - conditionBytes - jobBytes
	if len(advisories)+len(changes)+len(foreign) > 0 {
		left -= conditions.EncodedSize(own)
	}
	status.Advisories, _ = takeWithin(advisories, v1alpha1.MaxChangeEntries, &left)
	status.Changes, status.ChangesOmitted = takeWithin(changes, v1alpha1.MaxChangeEntries, &left)
	shown, _ := takeWithin(samplesOfForeign(foreign), v1alpha1.MaxTopologyEntries-len(own), &left)
	status.Topology = slices.Concat(own, shown)
	status.TopologyOmitted = omitted + int32(len(foreign)-len(shown))
}

// truncated returns as many entries as the status may hold, and how many it left out. It never leaves out exchanges and queues, because
// Warren can only delete objects that are in the inventory. It leaves out bindings of sources first: if the former binding of a delay tier
// stayed beside the new one, each rejected message would be copied.
func truncated(entries []v1alpha1.TopologyEntry) (kept []v1alpha1.TopologyEntry, omitted int32) {
	own, foreign := splitByOwner(entries)
	if len(foreign) == 0 && len(own) <= v1alpha1.MaxTopologyEntries && encodedAtMost(own) <= bindingBytes {
		return own, 0 // usually
	}
	objects := slices.DeleteFunc(slices.Clone(own), isBinding)
	left := bindingBytes - conditions.EncodedSize(objects)
	objects, omitted = head(objects, v1alpha1.MaxTopologyEntries)
	bindings := slices.DeleteFunc(slices.Clone(own), func(entry v1alpha1.TopologyEntry) bool { return !isBinding(entry) })
	slices.SortStableFunc(bindings, func(a, b v1alpha1.TopologyEntry) int { return cmp.Compare(sourceRank(a), sourceRank(b)) })
	bindings, more := takeWithin(bindings, v1alpha1.MaxTopologyEntries-len(objects), &left)
	shown, _ := takeWithin(samplesOfForeign(foreign), v1alpha1.MaxTopologyEntries-len(objects)-len(bindings), &left)
	kept = slices.Clip(own)
	if omitted+more > 0 {
		kept = slices.Concat(objects, bindings)
	}
	return append(kept, shown...), omitted + more + int32(len(foreign)-len(shown))
}

// sourceRank is 1 for the binding of a source, and 0 otherwise.
func sourceRank(entry v1alpha1.TopologyEntry) int {
	if entry.Role == v1alpha1.RoleSource {
		return 1
	}
	return 0
}

func isForeign(entry v1alpha1.TopologyEntry) bool { return entry.State == v1alpha1.StateForeign }

func isBinding(entry v1alpha1.TopologyEntry) bool { return entry.Kind == v1alpha1.KindBinding }

// encodedAtMost returns an upper bound of the size of entries as JSON. It is cheap, and up to six times too large.
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

// splitByOwner separates the entries of this ConsumerQueue from foreign bindings.
func splitByOwner(entries []v1alpha1.TopologyEntry) (own, foreign []v1alpha1.TopologyEntry) {
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

// samplesOfForeign returns foreign bindings as the status shows them. It replaces long arguments by their hash, so that the bindings remain
// distinct. It leaves out names that are longer than AMQP allows, which no real broker has.
func samplesOfForeign(foreign []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
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

// hashed returns a text that is not too long, or its hash and length.
func hashed(text string) string {
	if len(text) <= maxValue {
		return conditions.ValidUTF8(text)
	}
	return fmt.Sprintf("sha256:%x (%d bytes)", sha256.Sum256([]byte(text)), len(text))
}

// takeWithin returns as many items as fit into the remaining bytes, and how many it left out.
func takeWithin[T any](list []T, most int, left *int) (kept []T, omitted int32) {
	list, omitted = head(list, max(0, most))
	for i := range list {
		size := conditions.EncodedSize(list[i]) + len(",")
		if size > *left {
			return list[:i:i], omitted + int32(len(list)-i)
		}
		*left -= size
	}
	return list, omitted
}

// head returns the first items of a list, and how many it left out.
func head[T any](list []T, most int) (kept []T, omitted int32) {
	if len(list) <= most {
		return list, 0
	}
	return list[:most], int32(len(list) - most)
}
