// Package deadletterapi serves the dead-letter API: who may, sees over HTTPS what is in a dead-letter queue. Messages are taken from the
// broker and given back in their order; nothing of them is kept, logged, or written to the cluster.
//
//   - server.go: the listener, its certificate, and the label of the pod that serves
//   - handler.go: which request gets which answer
//   - access.go: who asks, and whether they may
//   - frontproxy.go: requests that the API server passes on
//   - query.go: what a request asks for
//   - looks.go: how many look at a time, and what goes wrong with a look
//   - letters.go, page.go, summary.go, export.go: what is told of messages
//   - redact.go: which headers are not
//   - queues.go: the list of queues, also as a table for kubectl
//   - discovery.go: what the API server asks an API that it aggregates
package deadletterapi
