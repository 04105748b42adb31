// Package text formats short texts for messages and statuses. It is a leaf: it knows nothing else of Warren.
package text
