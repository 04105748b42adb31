// Package observe keeps a snapshot of a vhost in memory, shared by connections with the same rights. It refreshes the snapshot from
// the management API, and applies events between two refreshes.
//
// Begin with observer.go, which has the Observer of one connection. The files:
//
//   - refresh.go, refreshrequests.go: refreshes, once per interval or on request
//   - observation.go, views.go: the snapshot, shared by connections with the same rights
//   - eventlistener.go, viewevents.go: events between two refreshes
//   - notices.go: notices for the receiver of a connection
//   - counts.go, consumers.go, nodes.go: messages, consumers and members of queues
//   - queueuses.go: the queues that Warren itself consumes or fills
//   - otherinstances.go: other instances of Warren on the vhost
//
// The package changes nothing at the broker except the markers of the event feed; see package eventfeed.
package observe
