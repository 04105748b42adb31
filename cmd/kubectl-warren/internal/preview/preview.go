package preview

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Basis is the state with which a preview compares a spec.
type Basis string

// The values of Basis.
const (
	// BasisNothing: an empty broker.
	BasisNothing Basis = "Nothing"
	// BasisStatus: the status of the ConsumerQueue after its last comparison.
	BasisStatus Basis = "Status"
)

// Action is what Warren does with an object.
type Action string

// The values of Action.
const (
	Declare         Action = "Declare"
	Bind            Action = "Bind"
	Unbind          Action = "Unbind"
	Delete          Action = "Delete"
	DeleteWhenEmpty Action = "DeleteWhenEmpty"
	// Recreate: the object must be deleted and declared again, by Warren or by the user.
	Recreate Action = "Recreate"
	// Wait: Warren does not declare the missing object yet; the message gives the reason.
	Wait Action = "Wait"
	// Keep: the object is not desired, and stays; the message gives the reason.
	Keep      Action = "Keep"
	Unchanged Action = "Unchanged"
	// Unknown: the status does not contain the state of the object.
	Unknown Action = "Unknown"
)

// Difference is a property of an object that differs.
type Difference struct {
	// Path within the object, such as arguments.x-message-ttl.
	Path string `json:"path"`
	// Desired and Observed are formatted for people; empty if the property is not set.
	Desired  string `json:"desired,omitempty"`
	Observed string `json:"observed,omitempty"`
}

// Object is an exchange, queue or binding with its action.
type Object struct {
	Action      Action               `json:"action"`
	State       v1alpha1.ObjectState `json:"state"`
	Kind        v1alpha1.ObjectKind  `json:"kind"`
	Name        string               `json:"name,omitempty"`
	Source      string               `json:"source,omitempty"`
	Destination string               `json:"destination,omitempty"`
	RoutingKey  string               `json:"routingKey,omitempty"`
	Role        v1alpha1.Role        `json:"role,omitempty"`
	// Type of an exchange that Warren declares.
	Type v1alpha1.ExchangeType `json:"type,omitempty"`
	// Arguments of a desired queue or binding.
	Arguments   vhost.Arguments `json:"arguments,omitempty"`
	Differences []Difference    `json:"differences,omitempty"`
	Message     string          `json:"message,omitempty"`
}

// Preview is the result of applying a ConsumerQueue.
type Preview struct {
	Namespace     string `json:"namespace,omitempty"`
	ConsumerQueue string `json:"consumerQueue"`
	BrokerVersion string `json:"brokerVersion"`
	Basis         Basis  `json:"basis"`
	// RejectMode is how rejected messages reach the delay tier; empty unless the strategy is Reject.
	RejectMode v1alpha1.RejectMode `json:"rejectMode,omitempty"`
	Notes      []string            `json:"notes,omitempty"`
	Objects    []Object            `json:"objects"`
	// Recreation is the queue that Warren recreates next; nil if it recreates none.
	Recreation *Recreation `json:"recreation,omitempty"`
}

// Differs reports whether Warren or the user must act.
func (p Preview) Differs() bool {
	return slices.ContainsFunc(p.Objects, func(object Object) bool { return object.Action != Unchanged && object.Action != Keep })
}

// Count returns the number of objects with an action.
func (p Preview) Count(action Action) int {
	count := 0
	for _, object := range p.Objects {
		if object.Action == action {
			count++
		}
	}
	return count
}

// OnEmptyBroker computes what Warren would declare on an empty RabbitMQ of a version. It assumes that exchanges which Warren does
// not declare exist. The error is a *topology.Refusal.
func OnEmptyBroker(cq *v1alpha1.ConsumerQueue, version vhost.Version) (Preview, error) {
	desired, err := topology.Desired(cq, version)
	if err != nil {
		return Preview{}, err
	}
	nothing := reported{observed: vhost.Observed{Exchanges: map[string]vhost.Exchange{}, Queues: map[string]vhost.Queue{}}}
	preview := newPreview(cq, desired, version, BasisNothing)
	for _, exchange := range desired.Exchanges {
		if !exchange.Declare {
			nothing.observed.Exchanges[exchange.Name] = vhost.Exchange{Durable: true}
			preview.note("exchange %q is assumed to exist: Warren does not declare it, "+
				"because its binding has no exchange type", exchange.Name)
		}
	}
	preview.noteReturn(desired)
	preview.compare(cq, desired, nothing, plan.Input{}, nil)
	return preview, nil
}

// AgainstStatus computes what applying cq would change, based on the status of inCluster, the ConsumerQueue of that name in the
// cluster. cq and inCluster may be the same. others are the other ConsumerQueues of the namespace, which may share objects. The error is a
// *topology.Refusal.
func AgainstStatus(cq, inCluster *v1alpha1.ConsumerQueue, version vhost.Version, others []v1alpha1.ConsumerQueue) (Preview, error) {
	desired, err := topology.Desired(cq, version)
	if err != nil {
		return Preview{}, err
	}
	before, err := topology.Desired(inCluster, version)
	preview := newPreview(cq, desired, version, BasisStatus)
	if err != nil {
		preview.note("the ConsumerQueue as it is in the cluster has no topology on this broker: %v", err)
	}
	status := inCluster.Status
	found := read(status, before, desired)
	preview.noteStatus(inCluster)
	preview.noteRoute(before, desired, status.Changes)
	input := plan.Input{
		Older:           func() []topology.Topology { return topology.DesiredOnOlderVersions(cq, version) },
		Unwanted:        found.unwanted,
		Owned:           topology.Owned(status.Topology),
		Shared:          sharedWith(others),
		OtherInstance:   otherInstance(status.Advisories),
		WarrenRecreates: topology.RecreationOf(cq).Recreates(cq.Spec.DriftPolicy),
	}
	known := topology.InventoryOf(status.Topology)
	comparison := preview.compare(cq, desired, found, input, known)
	preview.Recreation = previewRecreation(cq, inCluster, comparison, found.observed, input, known)
	return preview, nil
}

// otherInstance describes another instance of Warren on the vhost, from the advisory about it; empty if there is none.
func otherInstance(advisories []v1alpha1.Advisory) string {
	for i := range advisories {
		if advisories[i].Code == v1alpha1.AdvisorySharedVHost {
			what, _, _ := strings.Cut(advisories[i].Message, ". ")
			return what
		}
	}
	return ""
}

func newPreview(cq *v1alpha1.ConsumerQueue, desired topology.Topology, version vhost.Version, basis Basis) Preview {
	return Preview{
		Namespace: cq.Namespace, ConsumerQueue: cq.Name, BrokerVersion: version.String(), Basis: basis, RejectMode: desired.RejectMode,
		Objects: []Object{},
	}
}

func (p *Preview) note(format string, values ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, values...))
}

func (p *Preview) noteReturn(desired topology.Topology) {
	if desired.Return != nil {
		p.note("the return route through exchange %q is not checked: only the broker knows its bindings",
			desired.Return.Exchange)
	}
}

// noteRoute adds a note about the return route: the fault in the status, or that a new route is unknown.
func (p *Preview) noteRoute(before, desired topology.Topology, changes []v1alpha1.Change) {
	if !reflect.DeepEqual(before.Return, desired.Return) {
		p.noteReturn(desired)
		return
	}
	for _, change := range changes {
		if change.Path == routePath {
			p.note("%s", change.Message)
		}
	}
}

// noteStatus adds notes about the reliability of the status.
func (p *Preview) noteStatus(inCluster *v1alpha1.ConsumerQueue) {
	status := inCluster.Status
	if len(status.Topology) == 0 {
		p.note("the status lists no objects yet, so all are shown as missing: the preview does not see objects that already " +
			"exist at the broker")
	}
	if status.ObservedGeneration != inCluster.Generation {
		p.note("the status is of generation %d and the ConsumerQueue of generation %d: Warren has not compared the newest spec yet",
			status.ObservedGeneration, inCluster.Generation)
	}
	if inCluster.Spec.Suspend {
		p.note("the ConsumerQueue is suspended: the status may be old, and Warren does nothing until spec.suspend is false")
	}
	if status.TopologyOmitted > 0 {
		p.note("the status leaves out objects (%d), which are shown as unknown", status.TopologyOmitted)
	}
	if status.ChangesOmitted > 0 {
		p.note("the status leaves out changes (%d): some differences are not shown", status.ChangesOmitted)
	}
}

// unwanted returns those bindings of a queue that the status lists as foreign.
func (r reported) unwanted(_ string, bindings []vhost.Binding) []vhost.ID {
	return slices.DeleteFunc(vhost.BindingIDs(bindings), func(id vhost.ID) bool { return !r.foreign[id] })
}

// sharedWith reports whether one of these ConsumerQueues has an object, according to its status.
func sharedWith(others []v1alpha1.ConsumerQueue) func(v1alpha1.TopologyEntry) bool {
	shared := vhost.IDs{}
	for i := range others {
		for _, entry := range topology.OwnedView(others[i].Status.Topology) {
			shared[topology.IDOf(entry)] = true
		}
	}
	return func(entry v1alpha1.TopologyEntry) bool { return shared[topology.IDOf(entry)] }
}
