// Package text formats short texts for messages and statuses. It imports no other package of Warren.
package text
