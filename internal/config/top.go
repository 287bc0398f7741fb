package config

import (
	"math"
	"net/url"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

const (
	// maxSlots is how many slots are kept without archive_mode, and compared with
	// peers: more than a year of hours.
	maxSlots = 10_000
	// maxBcryptCost refuses a hash that would take minutes to check.
	maxBcryptCost = 16
)

// readTop reads the keys that stand before the first table.
func (d *decoder) readTop(s *section, cfg *Config) {
	cfg.Datastore = d.env.Datastore()
	s.filePath("datastore", &cfg.Datastore)

	cfg.Slots = Slots{Sync: 24, Retain: 24}
	for name, dst := range map[string]*int{"dags_count": &cfg.Slots.Sync, "history_retention_dags": &cfg.Slots.Retain} {
		if s.num(name, dst, 1, math.MaxInt32) && *dst > maxSlots {
			s.warnf(s.line(name), name, "is taken as %d, the most there is; archive_mode keeps everything", maxSlots)
			*dst = maxSlots
		}
	}
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
		switch cost, err := bcrypt.Cost([]byte(irc.Password)); {
		case err != nil || len(irc.Password) != 60:
			s.errorf(s.line("password"), "password", "must be the hash that \"hearsay password\" prints, not the password")
		case cost > maxBcryptCost:
			s.errorf(s.line("password"), "password", "has cost %d, which takes too long to check; at most %d", cost, maxBcryptCost)
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
