package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A terminal is a tmux server of its own with one window, as a person would have it.
type terminal struct{ socket string }

func startTerminal(t *testing.T, command string, env ...string) *terminal {
	t.Helper()
	term := &terminal{filepath.Join(t.TempDir(), "tmux")}
	cmd := exec.Command("tmux", "-S", term.socket, "-f", "/dev/null", "new-session", "-d", "-s", "w", "-x", "200", "-y", "80", command)
	cmd.Env = append(os.Environ(), append(env, "TZ=UTC", "TERM=screen")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s ended as\n%s", strings.Fields(command)[0], term.screen(t))
		}
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run()
	})
	return term
}

func (term *terminal) tmux(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// enter types a line.
func (term *terminal) enter(t *testing.T, line string) {
	t.Helper()
	term.tmux(t, "send-keys", "-t", "w", "-l", line)
	term.tmux(t, "send-keys", "-t", "w", "Enter")
}

// screen is what can be seen, with lines that were wrapped put together.
func (term *terminal) screen(t *testing.T) string {
	t.Helper()
	return term.tmux(t, "capture-pane", "-p", "-J", "-t", "w")
}
