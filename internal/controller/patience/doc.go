// Package patience remembers for how long something has been going on with a resource, as this process has seen it.
package patience
