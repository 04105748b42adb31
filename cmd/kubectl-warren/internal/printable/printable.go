package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes a text for one line of a terminal. Control characters, such as the beginning of an escape sequence, and characters
// that change the writing direction become escapes. Publishers control the content of messages.
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

// Lines splits a text into lines, and escapes each like Text, except for tabs.
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

// IsText reports whether a terminal can print all lines of a text as they are.
func IsText(value string) bool {
	return utf8.ValidString(value) && strings.IndexFunc(strings.ReplaceAll(value, "\n", ""), isUnprintable) < 0
}

// QuotedYAML escapes YAML for a terminal without changing its meaning. Each text that is not IsText must be in double quotes.
func QuotedYAML(content []byte) []byte {
	if isASCIIText(content) {
		return content
	}
	escaped := make([]byte, 0, len(content)+len(content)/8)
	for _, character := range string(content) {
		switch {
		case character == '\n', !isUnprintable(character):
			escaped = utf8.AppendRune(escaped, character)
		case character > 0xffff:
			escaped = fmt.Appendf(escaped, `\U%08x`, character)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, character)
		}
	}
	return escaped
}

func isUnprintable(character rune) bool { return !unicode.IsPrint(character) }

// JSON escapes JSON for a terminal without changing its meaning. Only strings need escapes.
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

// isASCIIText reports whether the content is ASCII without characters to escape. Then JSON need not copy it.
func isASCIIText(content []byte) bool {
	for _, each := range content {
		if each >= 0x7f || each < ' ' && each != '\n' && each != '\t' && each != '\r' {
			return false
		}
	}
	return true
}
