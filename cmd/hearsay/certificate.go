package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// certificateLife is how long a self-signed certificate lasts: clients pin it, so
// an end would only be a surprise.
const certificateLife = 10 * 365 * 24 * time.Hour

// writeCertificate makes a self-signed certificate for this machine and returns
// its SHA-256 fingerprint in hex. Neither file may be there yet.
func writeCertificate(certFile, keyFile string) (fingerprint string, err error) {
	for _, path := range []string{certFile, keyFile} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s exists already and is left as it is", path)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	now := time.Now()
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		names = append(names, host)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hearsay"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	if err := writeNew(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return "", err
	}
	if err := writeNew(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// colons writes a fingerprint as irssi and openssl do.
func colons(fingerprint string) string {
	var pairs []string
	for pair := range slices.Chunk([]byte(strings.ToUpper(fingerprint)), 2) {
		pairs = append(pairs, string(pair))
	}
	return strings.Join(pairs, ":")
}
