// Package ssa writes statuses by server-side apply.
package ssa
