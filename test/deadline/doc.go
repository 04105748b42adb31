// Package deadline defines how long tests wait. Tests state the time that an idle machine needs, but must also pass while many
// other tests run.
package deadline
