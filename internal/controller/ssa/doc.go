// Package ssa has what those need who write statuses, by server-side apply or as a whole.
package ssa
