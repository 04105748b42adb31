package management

import "github.com/warren-mq/warren/internal/vhost"

// What values take of memory, in bytes and about.
const (
	// sizeOfPolicy is large because patterns are compiled.
	sizeOfPolicy = 4096
	sizeOfValue  = 40
	SizeOfTable  = 352 // for up to eight keys
	// sizeOfName is what the name of a queue and a number take in a map.
	sizeOfName = 160
	// sizeOfBinding is what a binding takes in a list, and the name of its queue in a map.
	sizeOfBinding = 256
)

// SizeOf is what a value of a table takes.
func SizeOf(value any) int64 {
	switch value := value.(type) {
	case string:
		return sizeOfValue + int64(len(value))
	case []any:
		size := int64(sizeOfValue)
		for _, item := range value {
			size += SizeOf(item)
		}
		return size
	case vhost.Arguments:
		return sizeOfTableOf(value)
	case map[string]any:
		return sizeOfTableOf(value)
	}
	return sizeOfValue
}

func sizeOfTableOf(table map[string]any) int64 {
	if len(table) == 0 {
		return 0
	}
	size := int64(SizeOfTable)
	if len(table) > 8 {
		size += int64(len(table)) * SizeOfTable / 4
	}
	for key, value := range table {
		size += int64(len(key)) + SizeOf(value)
	}
	return size
}
