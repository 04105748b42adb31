// Package text formats short texts for messages and statuses, and limits labels. It imports no other package of Warren.
package text
