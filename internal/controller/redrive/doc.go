// Package redrive reconciles Redrives: it finds out which messages go where, whose turn it is, has them moved, and says how that fares.
package redrive
