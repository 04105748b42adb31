// Package ui serves `kubectl warren ui`: pages about dead letters on 127.0.0.1, with the permissions of the user's kubeconfig. It
// stores no messages. Begin reading at server.go.
//
//   - server.go: the paths, and the listener
//   - guard.go: admits requests of the user's browser only
//   - render.go: templates and errors
//   - queues.go, queue.go, message.go: the three views
//   - export.go: all messages as a file
//   - selection.go, request.go: selects and counts messages, and creates a Redrive or a Purge
//   - job.go, progress.go: the jobs, and their progress
//   - recreation.go: the recreation of a queue
//
// assets/ has htmx and its extension for server-sent events from npm (htmx.org, htmx-ext-sse; 0BSD), with versions in their
// names.
package ui
