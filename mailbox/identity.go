package mailbox

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Protocols of the wire, the better first (spec/mailbox.md, transport). Extensions
// are used only where ProtocolHearsay was negotiated; nothing older is ever offered
// (MB-40).
const (
	ProtocolHearsay = "/hearsay/mailbox/2"
	ProtocolBase    = "/komms/mailbox/2"
)

// ProtocolV1 is the destructive predecessor, whose page deletes what is in it. No
// client of this module offers it, and a relay speaks it only behind a switch of its
// library (MB-40).
const ProtocolV1 = "/komms/mailbox/1"

// Protocols are what both sides offer.
func Protocols() []string { return []string{ProtocolHearsay, ProtocolBase} }

// ErrIdentity: the other end did not prove the key that it had to.
var ErrIdentity = errors.New("mailbox: the other end has another key")

// ErrVersion: the other end negotiated no version of the protocol. TLS lets it, QUIC
// does not; what it would speak is not known (MB-40).
var ErrVersion = errors.New("mailbox: no version was negotiated")

// certificate is a self-signed certificate over key. Nobody looks at anything in it
// but the key.
func certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "mailbox"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(nil, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("mailbox: certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ServerTLS is the relay's side: TLS 1.3, its transport key, a client key demanded.
// Resumption is off, so that every connection proves its key afresh.
func ServerTLS(key ed25519.PrivateKey) (*tls.Config, error) {
	cert, err := certificate(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: Protocols(),
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol == "" {
				return ErrVersion
			}
			_, err := PeerKey(s)
			return err
		},
	}, nil
}

// ClientTLS is a client's side: it refuses any relay but the one with that key.
func ClientTLS(key ed25519.PrivateKey, relay ed25519.PublicKey) (*tls.Config, error) {
	cert, err := certificate(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: Protocols(),
		ServerName: "mailbox", InsecureSkipVerify: true, // the key is the identity, see below
		VerifyConnection: func(s tls.ConnectionState) error {
			got, err := PeerKey(s)
			if err != nil {
				return err
			}
			if !got.Equal(relay) {
				return ErrIdentity
			}
			if s.NegotiatedProtocol == "" {
				return ErrVersion
			}
			return nil
		},
	}, nil
}

// PeerKey is the Ed25519 key that the other end of a connection proved.
func PeerKey(s tls.ConnectionState) (ed25519.PublicKey, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, ErrIdentity
	}
	key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, ErrIdentity
	}
	return key, nil
}
