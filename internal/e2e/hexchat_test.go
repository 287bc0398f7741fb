package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A hexchat runs on an X server that shows nothing to anybody. A script in it types what
// it finds in a file; what HexChat shows comes out of its logs, with the times that it
// shows.
type hexchat struct {
	dir string
	cmd *exec.Cmd
	out bytes.Buffer
	n   int
}

// hexchatLua is the plugin that runs the script, where Debian puts it.
const hexchatLua = "/usr/lib/*/hexchat/plugins/lua.so"

// hexchatScript types the lines "window TAB command" of the files that are put there, and
// writes down what comes from the server.
const hexchatScript = `
hexchat.register("type", "1", "types what is in a file")
local dir = hexchat.get_info("configdir")
local wire = io.open(dir .. "/wire", "a")
hexchat.hook_server("RAW LINE", function(word, eol)
	wire:write(eol[1], "\n")
	wire:flush()
end)
local n = 1
hexchat.hook_timer(50, function()
	local f = io.open(dir .. "/type" .. n)
	if not f then return true end
	local window, command = f:read("a"):match("^(%S+)\t(.*)\n$")
	f:close()
	local context = hexchat.find_context(nil, window)
	if context then
		n = n + 1
		context:command(command)
	end
	return true
end)
`

// startHexChat starts a HexChat and waits until it is in #dev. With TLS it verifies the
// certificate as it would any other, among those that its machine trusts.
func startHexChat(t *testing.T, l login) *hexchat {
	t.Helper()
	parent := ""
	if os.Getuid() == 0 {
		parent = "/tmp" // where another user may go
	}
	dir, err := os.MkdirTemp(parent, "hexchat-") //nolint:usetesting // for another user, who cannot enter the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &hexchat{dir: dir}
	port, flags, user := fmt.Sprint(l.port), 2+8, l.user // the global identity, connect at the start
	if l.cert != "" {
		port, flags = "+"+port, flags+4
		b, err := os.ReadFile(l.cert)
		if err != nil {
			t.Fatal(err)
		}
		h.write(t, "trust.pem", string(b))
	}
	if user == "" {
		user = l.nick
	}
	h.write(t, "servlist.conf", fmt.Sprintf("v=2.16.1\n\nN=h\nL=6\nE=UTF-8 (Unicode)\nF=%d\nD=0\nS=127.0.0.1/%s\nJ=#dev\n", flags, port))
	h.write(t, "hexchat.conf", fmt.Sprintf(`version = 2.16.1
irc_logging = 1
irc_logmask = %%c.log
irc_nick1 = %[1]s
irc_nick2 = %[1]s2
irc_nick3 = %[1]s3
irc_user_name = %[2]s
irc_real_name = %[1]s
gui_slist_skip = 1
`, l.nick, user))
	if err := os.Mkdir(filepath.Join(dir, "addons"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.write(t, "addons/type.lua", hexchatScript)
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 { // as root it asks whether one is serious, and waits
		const nobody = 65534
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		for _, f := range []string{"", "trust.pem", "servlist.conf", "hexchat.conf", "addons", "addons/type.lua"} {
			if err := os.Chown(filepath.Join(dir, f), nobody, nobody); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "TZ=UTC", "LC_ALL=C.UTF-8",
		"NO_AT_BRIDGE=1", "DISPLAY=" + startX(t), "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere",
	}
	if l.cert != "" {
		env = append(env, "SSL_CERT_FILE="+filepath.Join(dir, "trust.pem"))
	}
	h.cmd = exec.Command("hexchat", "-d", dir)
	h.cmd.Env, h.cmd.SysProcAttr, h.cmd.Dir = env, as, dir
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.cmd.ProcessState == nil {
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("HexChat's output and wire:\n%s\n%s", h.out.Bytes(), h.read("wire"))
		}
	})
	shows(t, h, "#dev", "Now talking on #dev")
	return h
}

// startX starts an X server on a free display.
func startX(t *testing.T) (display string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-ac", "-nolisten", "tcp", "-screen", "0", "800x600x24")
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // so that it takes its lock files along
		_ = cmd.Wait()
	})
	n, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb: %v", err)
	}
	return ":" + strings.TrimSpace(n)
}

func (h *hexchat) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *hexchat) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(h.dir, name)) // it may come later
	return string(b)
}

func (h *hexchat) name() string { return "HexChat" }

func (h *hexchat) query(t *testing.T, nick string) { t.Helper(); h.command(t, "#dev", "query "+nick) }

func (h *hexchat) say(t *testing.T, window, text string) {
	t.Helper()
	h.command(t, window, "say "+text)
}

// command types a command, without its slash, into a window.
func (h *hexchat) command(t *testing.T, window, command string) {
	t.Helper()
	h.n++
	name := fmt.Sprint("type", h.n)
	h.write(t, "new", window+"\t"+command+"\n")
	if err := os.Chmod(filepath.Join(h.dir, "new"), 0o644); err != nil { //nolint:gosec // it is for another user
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(h.dir, "new"), filepath.Join(h.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// text is the window's log. HexChat shows a refusal in the window that is in front.
func (h *hexchat) text(_ *testing.T, window string) string { return h.read("logs/" + window + ".log") }
