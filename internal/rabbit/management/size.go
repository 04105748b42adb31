package management

import "github.com/warren-mq/warren/internal/vhost"

// Estimates of the memory that values take, in bytes.
const (
	// sizeOfPolicy is large because patterns are compiled.
	sizeOfPolicy = 4096
	sizeOfValue  = 40
	SizeOfTable  = 352 // for up to eight keys
	// sizeOfName is the memory of the name of a queue and a number in a map.
	sizeOfName = 160
	// sizeOfBinding is the memory of a binding in a list, and of the name of its queue in a map.
	sizeOfBinding = 256
)

// SizeOf estimates the memory that a value in a table takes, in bytes.
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
