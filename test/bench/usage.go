package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// processes returns all processes of the machine, by their ID.
func processes() (map[int]procfs.ProcStat, error) {
	running, err := procfs.AllProcs()
	if err != nil || len(running) == 0 {
		return nil, errors.New("there are no processes in /proc: the benchmark needs Linux")
	}
	all := map[int]procfs.ProcStat{}
	for _, process := range running {
		if p, err := process.Stat(); err == nil { // otherwise the process has ended
			all[p.PID] = p
		}
	}
	return all, nil
}

// below reports whether a process is the given one or its descendant.
func below(all map[int]procfs.ProcStat, pid, ancestor int) bool {
	for pid != ancestor {
		p, known := all[pid]
		if !known {
			return false
		}
		pid = p.PPID
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
		used := durationOf(p.CPUTime())
		switch {
		case p.PID == manager:
			m.cpu.manager += used
		case (p.Comm == "kube-apiserver" || p.Comm == "etcd") && below(all, p.PID, os.Getpid()):
			m.cpu.apiServer += used
		case below(all, p.PID, broker):
			m.cpu.broker += used
		}
	}
	m.cpu.machine, err = machineCPU()
	return m, err
}

func durationOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// machineCPU returns the total busy time of all cores.
func machineCPU() (time.Duration, error) {
	machine, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stat, err := machine.Stat()
	total := stat.CPUTotal
	return durationOf(total.User + total.Nice + total.System + total.IRQ + total.SoftIRQ), err
}

// resetPeak resets the peak memory of a process to its current memory.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakMemory returns the peak memory of a process since its start or resetPeak, in bytes; 0 if it has ended.
func peakMemory(pid int) (int64, error) {
	process, err := procfs.NewProc(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	status, err := process.NewStatus()
	return int64(status.VmHWM), err
}

// machineMemory returns the memory of the machine in bytes.
func machineMemory() (int64, error) {
	machine, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := machine.Meminfo()
	if err != nil || info.MemTotalBytes == nil {
		return 0, fmt.Errorf("read the memory of the machine: %w", err)
	}
	return int64(*info.MemTotalBytes), nil
}
