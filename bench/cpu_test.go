package bench

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time that this process has taken.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the processor time since begin, per one of n things. On a machine
// that does other work too, it says more than the clock does.
func reportCPU(b *testing.B, begin time.Duration, n int) {
	b.Helper()
	b.ReportMetric(float64((cpu()-begin).Nanoseconds())/1000/float64(n), "cpu-µs/event")
}
