package controllertest

import "runtime"

// HeapInUse returns the bytes of the heap that are still referenced.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the second collection frees interned strings, and objects with finalizers
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
