// Package printable escapes texts from publishers so that a reader sees all characters, and no terminal interprets them.
package printable
