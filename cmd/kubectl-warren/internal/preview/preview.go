package preview

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Basis says what a preview compares a spec with.
type Basis string

// The values of Basis.
const (
	// BasisNothing: as if nothing were at the broker.
	BasisNothing Basis = "Nothing"
	// BasisStatus: what the operator wrote into the status of the ConsumerQueue when it last compared.
	BasisStatus Basis = "Status"
)

// Action is what becomes of an object.
type Action string

// The values of Action.
const (
	Declare         Action = "Declare"
	Bind            Action = "Bind"
	Unbind          Action = "Unbind"
	Delete          Action = "Delete"
	DeleteWhenEmpty Action = "DeleteWhenEmpty"
	// Recreate: the object has to be deleted and declared again, by Warren or by somebody.
	Recreate Action = "Recreate"
	// Wait: the object is missing and is not declared for now; the message says why.
	Wait Action = "Wait"
	// Keep: the object is not desired, and stays; the message says why.
	Keep      Action = "Keep"
	Unchanged Action = "Unchanged"
	// Unknown: the status does not tell how the object is.
	Unknown Action = "Unknown"
)

// Difference is one property of an object that differs.
type Difference struct {
	// Path within the object, such as arguments.x-message-ttl.
	Path string `json:"path"`
	// Desired and Observed are as people read them; empty where the property is not set.
	Desired  string `json:"desired,omitempty"`
	Observed string `json:"observed,omitempty"`
}

// Object is an exchange, queue or binding, and what becomes of it.
type Object struct {
	Action      Action               `json:"action"`
	State       v1alpha1.ObjectState `json:"state"`
	Kind        v1alpha1.ObjectKind  `json:"kind"`
	Name        string               `json:"name,omitempty"`
	Source      string               `json:"source,omitempty"`
	Destination string               `json:"destination,omitempty"`
	RoutingKey  string               `json:"routingKey,omitempty"`
	Role        v1alpha1.Role        `json:"role,omitempty"`
	// Type is that of an exchange which Warren declares.
	Type v1alpha1.ExchangeType `json:"type,omitempty"`
	// Arguments are those of a queue or binding as desired.
	Arguments   vhost.Arguments `json:"arguments,omitempty"`
	Differences []Difference    `json:"differences,omitempty"`
	Message     string          `json:"message,omitempty"`
}

// Preview is what applying a ConsumerQueue would change.
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

// Differs says whether anything is to be done about an object, by Warren or by somebody else.
func (p Preview) Differs() bool {
	return slices.ContainsFunc(p.Objects, func(object Object) bool { return object.Action != Unchanged && object.Action != Keep })
}

// Count is how many objects have an action.
func (p Preview) Count(action Action) int {
	count := 0
	for _, object := range p.Objects {
		if object.Action == action {
			count++
		}
	}
	return count
}

// OnEmptyBroker says what applying a ConsumerQueue would declare on a RabbitMQ of a version, with nothing there. Only exchanges that Warren
// does not declare are taken to exist. The error is a *topology.Refusal.
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
			preview.note("exchange %q is taken to exist: Warren does not declare it, because its binding gives no type", exchange.Name)
		}
	}
	preview.noteReturn(desired)
	preview.compare(cq, desired, nothing, plan.Input{}, nil)
	return preview, nil
}

// AgainstStatus says what applying a ConsumerQueue would change, going by the status of the ConsumerQueue of that name in the cluster. Both
// may be the same. others are further ConsumerQueues of the namespace, which may share objects. The error is a *topology.Refusal.
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
		Older:     func() []topology.Topology { return topology.DesiredOnOlderVersions(cq, version) },
		Unwanted:  found.unwanted,
		Owned:     topology.Owned(status.Topology),
		Shared:    sharedWith(others),
		Recreates: topology.RecreationOf(cq).Recreates(cq.Spec.DriftPolicy),
	}
	known := topology.InventoryOf(status.Topology)
	comparison := preview.compare(cq, desired, found, input, known)
	preview.Recreation = previewRecreation(cq, inCluster, comparison, found.observed, input, known)
	return preview, nil
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
		p.note("where exchange %q leads the messages that return is not looked at: only the broker knows its bindings",
			desired.Return.Exchange)
	}
}

// noteRoute says of the way back to the main queue what the status says, or that nothing is known of a new one.
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

// noteStatus says how much the status is worth.
func (p *Preview) noteStatus(inCluster *v1alpha1.ConsumerQueue) {
	status := inCluster.Status
	if len(status.Topology) == 0 {
		p.note("the status lists no objects yet, so all are shown as missing: what exists already at the broker is not seen here")
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

// unwanted lists those bindings of a queue that the status calls foreign.
func (r reported) unwanted(_ string, bindings []vhost.Binding) []vhost.ID {
	return slices.DeleteFunc(vhost.BindingIDs(bindings), func(id vhost.ID) bool { return !r.foreign[id] })
}

// sharedWith says whether one of these ConsumerQueues has an object, going by its status.
func sharedWith(others []v1alpha1.ConsumerQueue) func(v1alpha1.TopologyEntry) bool {
	shared := vhost.IDs{}
	for i := range others {
		for _, entry := range topology.OwnedView(others[i].Status.Topology) {
			shared[topology.IDOf(entry)] = true
		}
	}
	return func(entry v1alpha1.TopologyEntry) bool { return shared[topology.IDOf(entry)] }
}
