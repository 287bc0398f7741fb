package p2p

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// tlsName is the only name in every certificate of the network, and the server
// name whatever the real host is (p2p facts, 6.3).
const tlsName = "dark.fi"

// ErrIdentity says that the peer's certificate is not what the network asks for.
var ErrIdentity = errors.New("p2p: peer certificate refused")

// newIdentity makes the throw-away certificate of one dial or one listener: a
// self-signed Ed25519 key with exactly one name. Nothing pins or keeps it. The
// dates say nothing about our clock.
func newIdentity() (tls.Certificate, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("p2p: certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("p2p: certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: tlsName},
		DNSNames:     []string{tlsName},
		NotBefore:    time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pub, priv)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("p2p: certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: priv}, nil
}

// newTLSConfig is the TLS configuration of one dial or one listener: mutual, TLS
// 1.3, no tickets, no ALPN, peers judged by [checkIdentity] alone.
//
// crypto/tls cannot be told to offer Ed25519 as the only signature scheme. It
// need not: the scheme follows from the key, and only Ed25519 keys pass the check.
func newTLSConfig() (*tls.Config, error) {
	cert, err := newIdentity()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{cert},
		ServerName:       tlsName,
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384},
		ClientAuth:       tls.RequireAnyClientCert,
		// Chains, dates and names of a self-signed certificate mean nothing. The
		// check that matters runs in VerifyConnection, on resumed sessions as well.
		InsecureSkipVerify:          true, // see above
		VerifyConnection:            checkIdentity,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // a frame leaves in as few records as it can
	}, nil
}

var oidSAN = asn1.ObjectIdentifier{2, 5, 29, 17}

// checkIdentity accepts a peer whose leaf certificate has an Ed25519 key and a
// subject alternative name that is exactly the DNS name dark.fi. Possession of
// the key was proven by the handshake.
func checkIdentity(cs tls.ConnectionState) error {
	if cs.Version != tls.VersionTLS13 {
		return fmt.Errorf("%w: not TLS 1.3", ErrIdentity)
	}
	if len(cs.PeerCertificates) == 0 {
		return fmt.Errorf("%w: none sent", ErrIdentity)
	}
	leaf := cs.PeerCertificates[0]
	if _, ok := leaf.PublicKey.(ed25519.PublicKey); !ok {
		return fmt.Errorf("%w: not an Ed25519 key", ErrIdentity)
	}
	var san []byte
	n := 0
	for _, ext := range leaf.Extensions {
		if ext.Id.Equal(oidSAN) {
			san = ext.Value
			n++
		}
	}
	if n != 1 || !isOnlyName(san) {
		return fmt.Errorf("%w: subject alternative name", ErrIdentity)
	}
	return nil
}

// isOnlyName tells whether der is a GeneralNames with one element, the dNSName
// dark.fi. It looks at the bytes since crypto/x509 skips kinds of names that it
// does not know.
func isOnlyName(der []byte) bool {
	var seq, name asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &seq); err != nil || len(rest) != 0 ||
		seq.Class != asn1.ClassUniversal || seq.Tag != asn1.TagSequence || !seq.IsCompound {
		return false
	}
	if rest, err := asn1.Unmarshal(seq.Bytes, &name); err != nil || len(rest) != 0 {
		return false
	}
	return name.Class == asn1.ClassContextSpecific && name.Tag == 2 && !name.IsCompound && string(name.Bytes) == tlsName
}
