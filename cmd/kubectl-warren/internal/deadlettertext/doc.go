// Package deadlettertext describes dead letters in words, the same on a terminal as in a browser. It does no I/O. All texts that it
// returns are escaped for terminals, and contain no markup.
package deadlettertext
