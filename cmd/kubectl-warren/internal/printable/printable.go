package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text writes a text in one line that a terminal takes for nothing but text: control characters, such as those that begin an escape
// sequence, and characters that turn the direction of writing become escapes. What messages hold is written by whoever publishes.
func Text(value string) string {
	if utf8.ValidString(value) && strings.IndexFunc(value, isUnprintable) < 0 {
		return value
	}
	var line strings.Builder
	for _, character := range value {
		if isUnprintable(character) {
			line.WriteString(strings.Trim(strconv.QuoteRune(character), "'"))
		} else {
			line.WriteRune(character)
		}
	}
	return line.String()
}

// Lines is Text for a text that keeps its lines and tabs.
func Lines(value string) []string {
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(value, "\r\n", "\n"), "\n"), "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j, part := range parts {
			parts[j] = Text(part)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return lines
}

func isUnprintable(character rune) bool { return !unicode.IsPrint(character) }

// JSON writes the same JSON so that a terminal takes it for nothing but text. Outside of texts JSON has nothing to escape.
func JSON(content []byte) []byte {
	if isASCIIText(content) {
		return content
	}
	escaped := make([]byte, 0, len(content)+len(content)/8)
	for len(content) > 0 {
		character, size := utf8.DecodeRune(content)
		switch {
		case character == utf8.RuneError && size == 1:
			escaped = append(escaped, `\ufffd`...)
		case character == '\n', character == '\t', character == '\r', !isUnprintable(character):
			escaped = append(escaped, content[:size]...)
		case character > 0xffff:
			high, low := utf16.EncodeRune(character)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, character)
		}
		content = content[size:]
	}
	return escaped
}

// isASCIIText says whether there is nothing to escape, in a time that does not count beside the network's.
func isASCIIText(content []byte) bool {
	for _, each := range content {
		if each >= 0x7f || each < ' ' && each != '\n' && each != '\t' && each != '\r' {
			return false
		}
	}
	return true
}
