package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of CPU times in /proc, USER_HZ, on every architecture that Go knows.
const ticksPerSecond = 100

// processStat is a part of /proc/<pid>/stat.
type processStat struct {
	pid, parent int
	name        string // at most 15 characters
	cpu         time.Duration
}

// parseProcess reads the content of /proc/<pid>/stat; see proc_pid_stat(5).
func parseProcess(text string) (processStat, error) {
	before, after, _ := strings.Cut(text, " (")
	end := strings.LastIndex(after, ") ") // a name may contain spaces and brackets
	if end < 0 {
		return processStat{}, fmt.Errorf("no name of a process in %q", text)
	}
	p := processStat{name: after[:end]}
	fields := strings.Fields(after[end+2:])
	if len(fields) < 13 {
		return processStat{}, fmt.Errorf("too few fields for a process in %q", text)
	}
	numbers, err := integers(before, fields[1], fields[11], fields[12])
	if err != nil {
		return processStat{}, err
	}
	p.pid, p.parent = numbers[0], numbers[1]
	p.cpu = time.Duration(numbers[2]+numbers[3]) * time.Second / ticksPerSecond
	return p, nil
}

func integers(texts ...string) ([]int, error) {
	numbers := make([]int, 0, len(texts))
	for _, text := range texts {
		number, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// processes returns all processes of the machine.
func processes() (map[int]processStat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return nil, errors.New("there are no processes in /proc: the benchmark needs Linux")
	}
	all := map[int]processStat{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		p, err := parseProcess(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[p.pid] = p
	}
	return all, nil
}

// below reports whether a process is the given one or its descendant.
func below(all map[int]processStat, pid, ancestor int) bool {
	for pid != ancestor {
		p, known := all[pid]
		if !known {
			return false
		}
		pid = p.parent
	}
	return true
}

// cpu is user and system CPU time by process.
type cpu struct{ manager, apiServer, broker, machine time.Duration }

// others returns the CPU time of all other processes, including the benchmark.
func (c cpu) others() time.Duration { return max(0, c.machine-c.manager-c.apiServer-c.broker) }

func (c cpu) since(before cpu) cpu {
	return cpu{
		c.manager - before.manager, c.apiServer - before.apiServer, c.broker - before.broker, c.machine - before.machine,
	}
}

// moment is a time with the CPU time used until then.
type moment struct {
	at  time.Time
	cpu cpu
}

// now returns the current moment. The API server and etcd are children of this process. manager is 0 if there is none.
func now(manager, broker int) (moment, error) {
	all, err := processes()
	if err != nil {
		return moment{}, err
	}
	m := moment{at: time.Now()}
	for _, p := range all {
		switch {
		case p.pid == manager:
			m.cpu.manager += p.cpu
		case (p.name == "kube-apiserver" || p.name == "etcd") && below(all, p.pid, os.Getpid()):
			m.cpu.apiServer += p.cpu
		case below(all, p.pid, broker):
			m.cpu.broker += p.cpu
		}
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return moment{}, err
	}
	m.cpu.machine, err = parseMachineCPU(string(text))
	return m, err
}

// parseMachineCPU returns the total busy time of all cores from /proc/stat.
func parseMachineCPU(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	// user, nice, system, then idle and waiting for disks, then interrupts and soft interrupts.
	numbers, err := integers(fields[1], fields[2], fields[3], fields[6], fields[7])
	if err != nil {
		return 0, fmt.Errorf("/proc/stat: %w", err)
	}
	ticks := 0
	for _, number := range numbers {
		ticks += number
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// resetPeak resets the peak memory of a process to its current memory.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakMemory returns the peak memory of a process since its start or resetPeak, in bytes; 0 if it has ended.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return kilobytes(string(text), "VmHWM:")
}

// machineMemory returns the memory of the machine in bytes.
func machineMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return kilobytes(string(text), "MemTotal:")
}

// kilobytes reads one line of /proc/<pid>/status or /proc/meminfo and returns bytes.
func kilobytes(text, name string) (int64, error) {
	_, after, found := strings.Cut("\n"+text, "\n"+name)
	fields := strings.Fields(after)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("there is no %s", name)
	}
	number, err := strconv.ParseInt(fields[0], 10, 64)
	return number * 1024, err
}
