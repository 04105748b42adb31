// Package deadletterapi serves the dead-letter API, which shows the contents of dead-letter queues over HTTPS to authorized
// users. It reads messages from the broker and returns them in their order. It does not store or log them, or write them to the
// cluster.
//
//   - server.go: the server and its certificate
//   - listener.go, shares.go: how many connections and requests one client or namespace may have
//   - label.go: the label of the serving pod
//   - handler.go: the paths and their responses
//   - access.go: authentication and authorization
//   - frontproxy.go: requests that the API server forwards
//   - query.go: the parameters of a request
//   - browse.go: reading the messages of a queue, and its errors
//   - message.go, page.go, summary.go, export.go: the forms in which messages are shown
//   - stream.go, pace.go: the lines of an export, and how fast a client must receive them
//   - redact.go: headers whose values are hidden
//   - queues.go: the list of queues, also as a table for kubectl
//   - discovery.go: the responses that an aggregating API server needs
package deadletterapi
