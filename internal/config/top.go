package config

import (
	"net/url"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// maxSlots bounds dags_count and history_retention_dags: a hundred years of hours.
const maxSlots = 24 * 366 * 100

// readTop reads the keys that stand before the first table.
func (d *decoder) readTop(s *section, cfg *Config) {
	cfg.Datastore = d.env.Datastore()
	s.filePath("datastore", &cfg.Datastore)

	cfg.Slots = Slots{Sync: 24, Retain: 24}
	s.num("dags_count", &cfg.Slots.Sync, 1, maxSlots)
	s.num("history_retention_dags", &cfg.Slots.Retain, 1, maxSlots)
	s.flag("archive_mode", &cfg.Slots.Archive)
	s.flag("skip_dag_sync", &cfg.Slots.SkipSync)
	if !cfg.Slots.Archive && cfg.Slots.Sync > cfg.Slots.Retain {
		name := "dags_count"
		if !s.has(name) {
			name = "history_retention_dags"
		}
		s.errorf(s.line(name), name, "dags_count (%d) must not exceed history_retention_dags (%d)", cfg.Slots.Sync, cfg.Slots.Retain)
	}

	cfg.IRC = IRC{Listen: "tcp://127.0.0.1:6667"}
	s.str("irc_listen", &cfg.IRC.Listen)
	s.filePath("irc_tls_cert", &cfg.IRC.TLSCert)
	s.filePath("irc_tls_secret", &cfg.IRC.TLSKey)
	s.str("password", &cfg.IRC.Password)
	d.checkIRC(s, cfg.IRC)

	s.filePath("log", &cfg.Log.File)
	s.num("verbose", &cfg.Log.Verbose, 0, 255)

	rln := false
	if s.flag("rln_enabled", &rln); rln {
		s.errorf(s.line("rln_enabled"), "rln_enabled", "rate-limiting proofs are refused: their design asks for human review before it is built, and a node that demands them is cut off from darkirc's default nodes; set it to false")
	}
	s.inert("zk_key_datastore", "there are no proofs to make, rln_enabled is refused")
	s.inert("zk_key_sled_cache_mb", "there are no proofs to make, rln_enabled is refused")
	s.inert("sled_cache_mb", "the store sizes its cache by itself")
	s.inert("replay_datastore", "there is no replay log; \"hearsay dag export\" shows the graph")
	s.inert("replay_mode", "there is no replay log; \"hearsay dag export\" shows the graph")
	s.inert("fast_mode", "history is always fetched with its messages; the newest hour comes first")
}

// checkIRC looks for what would make the IRC port fail or surprise.
func (d *decoder) checkIRC(s *section, irc IRC) {
	if text := checkIRCListen(irc.Listen); text != "" {
		s.errorf(s.line("irc_listen"), "irc_listen", "%s", text)
		return
	}
	tls := strings.HasPrefix(irc.Listen, "tcp+tls:")
	if tls && (irc.TLSCert == "" || irc.TLSKey == "") {
		s.errorf(s.line("irc_listen"), "irc_listen", "tcp+tls needs irc_tls_cert and irc_tls_secret; \"hearsay config init --tls\" makes a pair")
	}
	if irc.Password != "" {
		if _, err := bcrypt.Cost([]byte(irc.Password)); err != nil || len(irc.Password) != 60 {
			s.errorf(s.line("password"), "password", "must be the hash that \"hearsay password\" prints, not the password")
		}
		return
	}
	if u, err := url.Parse(irc.Listen); err == nil && !isLoopback(u.Hostname()) {
		s.warnf(s.line("irc_listen"), "irc_listen", "everybody who can reach this address can read and write as you: set a password")
	}
}

// filePath reads a path and expands it.
func (s *section) filePath(name string, dst *string) {
	v, ok := s.get(name, kindString)
	if !ok {
		return
	}
	if v.str == "" || strings.ContainsRune(v.str, 0) {
		s.errorf(v.line, name, "must be a path")
		return
	}
	*dst = s.d.env.Expand(v.str)
}
