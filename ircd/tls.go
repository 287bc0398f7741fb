package ircd

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
)

// certificates are the TLS certificates of the listeners, by file names. They can be
// loaded again while they are served.
type certificates struct {
	mu    sync.RWMutex // guards byKey
	byKey map[Listen]*tls.Certificate
}

// load reads all certificates: the whole chain, and keys in PKCS#1, PKCS#8 or EC form
// (T27). With an error nothing is replaced. What it returns says, for a person who pins
// them, which are other ones than before.
func (cs *certificates) load(all []Listen) (changed []string, err error) {
	fresh := map[Listen]*tls.Certificate{}
	var errs []error
	for _, l := range all {
		if !l.tls() {
			continue
		}
		cert, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
		if err != nil {
			errs = append(errs, &SettingError{"listen", l.Address, err})
			continue
		}
		fresh[l] = &cert
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrConfig, errors.Join(errs...))
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, l := range all {
		if was, is := cs.byKey[l], fresh[l]; was != nil && is != nil && !bytes.Equal(was.Certificate[0], is.Certificate[0]) {
			changed = append(changed, fmt.Sprintf("there is another TLS certificate, its SHA-256 fingerprint is %x", sha256.Sum256(is.Certificate[0])))
		}
	}
	cs.byKey = fresh
	return changed, nil
}

// config serves l's certificate, whichever is loaded at the time; nil for a plain
// listener.
func (cs *certificates) config(l Listen) *tls.Config {
	if !l.tls() {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cs.mu.RLock()
			defer cs.mu.RUnlock()
			return cs.byKey[l], nil
		},
	}
}
