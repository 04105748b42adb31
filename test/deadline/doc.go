// Package deadline says how long a test waits before it gives up. Tests are written with the times of an idle machine;
// they must also pass where many of them, and other things, run at once.
package deadline
