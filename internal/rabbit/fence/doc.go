// Package fence names the policies that keep a queue from taking messages while it is shown to be empty.
package fence
