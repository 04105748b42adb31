package rabbit

import "github.com/warren-mq/warren/internal/vhost"

// What values take of memory, in bytes and about.
const (
	// sizeOfPolicy is large because patterns are compiled.
	sizeOfPolicy = 4096
	sizeOfValue  = 40
	sizeOfTable  = 352 // for up to eight keys
	// sizeOfName is what the name of a queue and a number take in a map.
	sizeOfName = 160
)

// sizeOf is what a value of a table takes.
func sizeOf(value any) int64 {
	switch value := value.(type) {
	case string:
		return sizeOfValue + int64(len(value))
	case []any:
		size := int64(sizeOfValue)
		for _, item := range value {
			size += sizeOf(item)
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
	size := int64(sizeOfTable)
	if len(table) > 8 {
		size += int64(len(table)) * sizeOfTable / 4
	}
	for key, value := range table {
		size += int64(len(key)) + sizeOf(value)
	}
	return size
}
