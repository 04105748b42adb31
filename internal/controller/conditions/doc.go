// Package conditions writes conditions as the API conventions and kstatus want them: Ready with Reconciling and Stalled, reasons,
// messages cut to size.
package conditions
