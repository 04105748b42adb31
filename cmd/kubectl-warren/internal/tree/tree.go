// Package tree arranges the objects of a topology from a ConsumerQueue's status in the order in which messages pass them. It does
// no I/O.
package tree

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Node is an object of a topology, with the objects that receive its messages.
type Node struct {
	Kind  string               `json:"kind"`
	Name  string               `json:"name"`
	Role  v1alpha1.Role        `json:"role,omitempty"`
	State v1alpha1.ObjectState `json:"state,omitempty"`
	Below []*Node              `json:"below,omitempty"`
}

// builder attaches each object once.
type builder struct {
	entries  []v1alpha1.TopologyEntry
	attached map[int]bool
}

// Of returns the tree of a ConsumerQueue: its sources, then the main queue. Below the main queue are the delay tiers and the
// dead-letter exchange with the dead-letter queue. Other objects come last.
func Of(cq *v1alpha1.ConsumerQueue) *Node {
	b := &builder{entries: cq.Status.Topology, attached: map[int]bool{}}
	root := &Node{Kind: "ConsumerQueue", Name: cq.Name}
	root.Below = append(root.Below, b.take(v1alpha1.KindExchange, v1alpha1.RoleSource)...)
	mains := b.take(v1alpha1.KindQueue, v1alpha1.RoleMain)
	root.Below = append(root.Below, mains...)
	below := root
	if len(mains) > 0 {
		below = mains[0]
	}
	for _, role := range []v1alpha1.Role{v1alpha1.RoleRetry, v1alpha1.RoleDeadLetter} {
		below.Below = append(below.Below, b.take(v1alpha1.KindExchange, role)...)
	}
	for _, role := range []v1alpha1.Role{v1alpha1.RoleDelayTier, v1alpha1.RoleDeadLetter} {
		below.Below = append(below.Below, b.take(v1alpha1.KindQueue, role)...)
	}
	for i, entry := range b.entries {
		if !b.attached[i] {
			root.Below = append(root.Below, b.node(i, entry))
		}
	}
	return root
}

// take returns nodes for the objects of a kind and role that are not attached yet.
func (b *builder) take(kind v1alpha1.ObjectKind, role v1alpha1.Role) []*Node {
	var nodes []*Node
	for i, entry := range b.entries {
		if !b.attached[i] && entry.Kind == kind && entry.Role == role {
			nodes = append(nodes, b.node(i, entry))
		}
	}
	return nodes
}

// node returns the node of an object. Below an exchange are its bindings, and below a binding its queue, unless that is the main
// queue.
func (b *builder) node(at int, entry v1alpha1.TopologyEntry) *Node {
	b.attached[at] = true
	node := &Node{Kind: string(entry.Kind), Name: entry.Name, Role: entry.Role, State: entry.State}
	switch entry.Kind {
	case v1alpha1.KindBinding:
		node.Name = bindingName(entry)
	case v1alpha1.KindExchange:
		for i, binding := range b.entries {
			if !b.attached[i] && binding.Kind == v1alpha1.KindBinding && binding.Source == entry.Name {
				node.Below = append(node.Below, b.node(i, binding))
			}
		}
		return node
	default:
		return node
	}
	for i, queue := range b.entries {
		leads := queue.Kind == v1alpha1.KindQueue && queue.Name == entry.Destination && queue.Role != v1alpha1.RoleMain
		if leads && !b.attached[i] {
			node.Below = append(node.Below, b.node(i, queue))
		}
	}
	return node
}

func bindingName(entry v1alpha1.TopologyEntry) string {
	name := fmt.Sprintf("%s -> %s", entry.Source, entry.Destination)
	switch {
	case entry.Arguments != "":
		return name + " " + entry.Arguments
	case entry.RoutingKey != "":
		return fmt.Sprintf("%s %q", name, entry.RoutingKey)
	}
	return name
}

// Line is a node as one line of a tree.
type Line struct {
	*Node

	// Branch precedes the name, such as "│  └─ ".
	Branch string
}

// Lines returns the nodes of a tree from top to bottom.
func (n *Node) Lines() []Line { return n.lines("", "") }

func (n *Node) lines(branch, indent string) []Line {
	lines := []Line{{Node: n, Branch: branch}}
	for i, below := range n.Below {
		if i == len(n.Below)-1 {
			lines = append(lines, below.lines(indent+"└─ ", indent+"   ")...)
		} else {
			lines = append(lines, below.lines(indent+"├─ ", indent+"│  ")...)
		}
	}
	return lines
}
