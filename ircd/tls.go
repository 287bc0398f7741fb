package ircd

import (
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
// (T27). With an error nothing is replaced.
func (cs *certificates) load(all []Listen) error {
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
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(errs...))
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.byKey = fresh
	return nil
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
